"""A script run again to answer a question: is it worth starting, was this the cause?"""
