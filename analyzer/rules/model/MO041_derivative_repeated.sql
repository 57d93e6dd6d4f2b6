/*
code = "MO041"
name = "derivative-repeated"
severity = "error"
phase = "forward"
signal = "source"
message = "{target} is {earlier} again. {text} ({place}) differentiates {output}, as the call before it does."
fix = "Give {earlier} to torch.autograd.grad as its first argument, where the derivative of {earlier} is meant."
seeks = ["events: event = 'derivative-repeated'"]
[needs]
tables = ["events"]
[doc]
what = "Two calls of torch.autograd.grad in one function have the same output and the same input. The name of the second result is that of a second derivative, as u_xx or d2u."
why = "The equation that is learnt has a first derivative where a second one stands. The loss falls, and the solution is that of another equation."
not_this = "An output that is computed anew between the two. Names that tell of no second derivative. The derivative of a derivative."
source = "PyTorch's documentation: torch.autograd.grad differentiates its outputs by its inputs. AdityaLab/pinnsformer #2."
*/
SELECT rank, step, NULL AS value, detail ->> '$.target' AS target, detail ->> '$.earlier' AS earlier,
    detail ->> '$.text' AS text, detail ->> '$.output' AS output, detail ->> '$.place' AS place
FROM events WHERE event = 'derivative-repeated'
ORDER BY step, rank
