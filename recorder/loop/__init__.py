"""What makes a training step: batch, forward, backward, optimizer, scheduler."""
