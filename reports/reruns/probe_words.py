"""What a probe saw, as a sentence: one for each code of a result."""

from collections.abc import Callable
from typing import Any

from ...schemas.files.probe_report import ProbeResult
from ..text.language import say
from ..text.wording import number, show_name

_Words = Callable[[dict[str, Any]], str]


def probe_sentence(found: ProbeResult) -> str:
    """The sentence of a result; its code where a newer firstfault wrote it."""
    words = SENTENCES.get(found.code)
    if words is None:
        return found.code
    said = words({k: _shown(v) for k, v in found.values.items()})
    if found.values.get("read") is True:
        said += say(" The script's loops say the number of steps.")
    return said


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return number(value, 4)
    if isinstance(value, list):
        return ", ".join(str(_shown(v)) for v in value)
    return show_name(value) if isinstance(value, str) else value


def _learns(v: dict[str, Any]) -> str:
    words = say("The first batch over and over: loss {first} → {last} in {steps} steps, halved after {half}.", **v)
    return words + _idle(v)


def _slowly(v: dict[str, Any]) -> str:
    words = say("The first batch over and over: loss {first} → {last} in {steps} steps at learning rate {lr}.", **v)
    return words + _idle(v)


def _idle(v: dict[str, Any]) -> str:
    if not v.get("idle_count"):
        return ""
    return " " + say("{idle_count} of {all} parameters never changed: {idle}.", **v)


SENTENCES: dict[str, _Words] = {
    "learns": _learns,
    "learns-slowly": _slowly,
    "learns-too-slowly": lambda v: (
        say(
            "The first batch over and over: loss {first} → {last} in {steps} steps; it is not halved at others either.",
            **v,
        )
        + _idle(v)
    ),
    "learns-at-another-lr": lambda v: say(
        "The first batch over and over: the loss reaches {own_last} at the script's learning rate {own}, {last} at {lr}.",
        **v,
    ),
    "learns-later": lambda v: say(
        "The first batch over and over: loss {own_last} after {steps} steps at the script's learning rate {own}, {last} at {lr};"
        " at {own} the same way takes about {needed} steps.",
        **v,
    ),
    "learns-too-late": lambda v: say(
        "The first batch over and over: loss {own_last} after {steps} steps at the script's learning rate {own}, {last} at {lr};"
        " at {own} the same way takes more than {needed} steps, and the run has {total}.",
        **v,
    ),
    "weights-stay": lambda v: say(
        "The first batch over and over: loss {own_last} after {steps} steps at the script's learning rate {own}, {last} at {lr};"
        " at {own} only {taken} of the weights change that {lr} changes.",
        **v,
    ),
    "learns-steadily": lambda v: say(
        "The first batch over and over: the loss falls steadily to {own_last} at the script's learning rate {own}; in about"
        " {needed} steps it is where {lr} brings it in {steps}.",
        **v,
    ),
    "does-not-learn": lambda v: (
        say(
            "The first batch over and over: the loss stays at {first} in {steps} steps, at every learning rate tried.",
            **v,
        )
        + _idle(v)
    ),
    "first-loss-lost": lambda v: say("The very first loss is not finite ({loss}).", **v),
    "lr-in-band": lambda v: say(
        "Range test: the loss falls between {low} and {high}, lowest at {lowest}; the script's {lr} lies well.", **v
    ),
    "lr-says-nothing": lambda v: say(
        "Range test: within so few steps no learning rate moves the loss beyond its scatter; the script's is {lr}.", **v
    ),
    "lr-diverges": lambda v: say(
        "Range test: the loss diverges at learning rate {diverged}; the script's is {lr}. Take {low} to {high}.", **v
    ),
    "lr-near-divergence": lambda v: say(
        "Range test: the script's learning rate {lr} is next to where the loss diverges ({diverged}). Take {low} to {high}.",
        **v,
    ),
    "lr-at-the-turn": lambda v: say(
        "Range test: the script's learning rate {lr} is next to {lowest}, where the loss is lowest and turns. Take {low} to"
        " {high}.",
        **v,
    ),
    "lr-far-too-low": lambda v: say(
        "Range test: the script's learning rate {lr} is far below the band {low} to {high} in which the loss falls.",
        **v,
    ),
    "lr-zero": lambda _: say("The learning rate is zero."),
    "diverged-at-once": lambda _: say("Range test: the loss is lost at the smallest learning rates already."),
    "same-bits": lambda _: say("The same iteration twice gave the same loss and gradients to the bit."),
    "count-followed": lambda v: say(
        "The same iteration moves the gradients by the same each time (losses {one}, {two}, {three}): the script counts its"
        " steps in the loss, as a warm-up does, and nothing is left to chance.",
        **v,
    ),
    "order-differs": lambda v: say(
        "The same iteration twice gave the gradient of {parameter} up to {share:.2g} of its norm: CUDA adds in an order that"
        " changes.",
        **v,
    ),
    "gradient-differs": lambda v: say(
        "The same iteration twice gave another gradient of {parameter} (by {share} of its norm).", **v
    ),
    "loss-differs": lambda v: say("The same iteration twice gave losses {one} and {two}.", **v),
    "mixed-measured": lambda v: say(
        "bfloat16 autocast: {mixed} s an iteration instead of {float32} s on {device}; the loss differs by {apart}.",
        **v,
    ),
    "mixed-loses": lambda _: say("bfloat16 autocast gives a loss that is not finite."),
    "sample-alone": lambda v: say("Changing sample {changed} of {samples} changed its own outputs alone.", **v),
    "sample-leaks": lambda v: say(
        "Changing sample {changed} of {samples} changed the outputs of {others} others: dimensions are mixed up.", **v
    ),
    "sample-ignored": lambda v: say(
        "Changing sample {changed} of {samples} changed no output: the input is not used.", **v
    ),
    "future-hidden": lambda v: say(
        "Changing the input from place {cut} of {length} on left all earlier outputs as they were.", **v
    ),
    "future-leaks": lambda v: say(
        "Changing the input from place {cut} of {length} on changed outputs from {first} on: the model sees what it is to"
        " predict.",
        **v,
    ),
    "target-counts": lambda v: say("Exchanging the targets moved the loss from {before} to {after}.", **v),
    "target-ignored": lambda v: say("Exchanging the targets left the loss at {loss}: it does not depend on them.", **v),
    "input-counts": lambda v: say("Exchanging the inputs moved the loss from {before} to {after}.", **v),
    "input-ignored": lambda v: say("Exchanging the inputs left the loss at {loss}: it does not depend on them.", **v),
    "fields-used": lambda v: say(
        "Making any of the {fields} fields of one shape the same for all samples moved the loss.", **v
    ),
    "field-unused": lambda v: say(
        "Making field {field} of the batch the same for all samples left the loss at {loss}, unlike another: nothing uses it.",
        **v,
    ),
    "inputs-apart": lambda v: say(
        "Exchanging sample {changed} of {samples} in the loader's batch left the model's inputs of most others as they were.",
        **v,
    ),
    "inputs-share-a-scale": lambda v: say(
        "Exchanging sample {changed} of {samples} in the loader's batch changed the model's inputs of {others} others: something"
        " between loader and model takes a maximum, mean or spread over the batch. Take it for each sample, or once from the"
        " training set.",
        **v,
    ),
    "no-numbers": lambda _: say("not tried: the loader's batch has no numbers that differ from sample to sample"),
    "signal-class": lambda v: say(
        "A linear model or nearest neighbours know something of the classes of {samples} samples (correlation {share}).",
        **v,
    ),
    "signal-number": lambda v: say(
        "A linear model or nearest neighbours know something of the targets of {samples} samples (correlation {share}).",
        **v,
    ),
    "no-signal": lambda v: say(
        "Neither a linear model nor nearest neighbours predict the targets of {samples} rows better than chance: do rows and"
        " targets belong together?",
        **v,
    ),
    "scaled-by-the-past": lambda _: say("No scale of the inputs tells of the targets."),
    "scaled-by-the-future-extremes": lambda v: say(
        "Input and target of each of {samples} samples have the same largest value together, and in {outside} the inputs alone"
        " have not: the scale was taken from the future too, and tells of it. Take it from the inputs.",
        **v,
    ),
    "scaled-by-the-future-mean": lambda v: say(
        "Input and target of each of {samples} samples have the same mean and spread together, and in {outside} the inputs alone"
        " have not: the scale was taken from the future too, and tells of it. Take it from the inputs.",
        **v,
    ),
    "no-series": lambda _: say("not tried: inputs and targets are no values of one signal"),
    "targets-are-inputs": lambda _: say(
        "Each target is the token at its own place of the input: the model is to copy what it sees, unless it is an autoencoder."
    ),
    "layers-affine": lambda v: say(
        "The output of the mean of two inputs is the mean of their outputs: {layers} weight matrices are no more than one, as if"
        " activations were missing.",
        **v,
    ),
    "layers-bend": lambda _: say("The output is no linear function of the input."),
    "no-layers": lambda _: say("not tried: no floating-point input of samples, or fewer than two weight matrices"),
    "targets-next": lambda _: say("Each target is the token that follows."),
    "targets-moved-twice": lambda v: say(
        "Each target is the token {by} places ahead, not the next one: labels that the model moves itself were moved before.",
        **v,
    ),
    "no-fields-alike": lambda _: say("not tried: no two fields of the batch have one shape"),
    "loss-without-target": lambda _: say(
        "not tried: no loss function of torch was given a target, and no DataLoader makes the batches"
    ),
    "no-table": lambda _: say("not tried: the inputs are no table of numbers with one target a row"),
    "too-few-samples": lambda v: say("not tried: {samples} samples are too few", **v),
    "pad-is-eos": lambda v: say(
        "The padding token is the end-of-text token ({token}), and targets leave it out: the model never learns to stop.",
        **v,
    ),
    "end-counts": lambda v: say(
        "Padding and the end of a text are one number, {number}, and the loss counts real ends.", **v
    ),
    "end-never-counts": lambda v: say(
        "Padding and the end of a text are one number, {number}. The loss leaves it out wherever it stands. {place}"
        " adds an end or waits for one. The model never learns to stop: give padding a number of its own, or mask by"
        " lengths.",
        **v,
    ),
    "vocabulary-holds": lambda v: say("{name} numbers {words} words, and its numbers hold.", **v),
    "words-share-numbers": lambda v: say(
        "{name} gives {count} of {words} words numbers that earlier words have: {one} and {other} are both {number}. Number"
        " new words from the largest number plus one.",
        **v,
    ),
    "words-in-order-of-a-set": lambda v: say(
        "The numbers of {words} words in {name} follow the order of a set, which differs in each process. {place} saves the"
        " model without them. Sort the words, or save the numbers and load them.",
        **v,
    ),
    "gradient-right": lambda v: say(
        "Autograd agrees with the loss's differences along each random direction ({directions}; to {apart}).", **v
    ),
    "gradient-wrong": lambda v: say(
        "Autograd says {autograd} along a random direction, the loss's own differences {numeric}: a part of the graph is"
        " missing, or a backward is wrong or meant to differ.",
        **v,
    ),
    "differences-disagree": lambda v: say(
        "The loss is too rough for differences along any random direction ({directions}).", **v
    ),
    "function-right": lambda v: say("gradcheck passes {function}.", **v),
    "function-wrong": lambda v: say(
        "gradcheck refuses {function}: its backward is not the derivative of its forward.", **v
    ),
    "gradient-scaled": lambda v: say(
        "{function} passes its input on and multiplies the gradient by {factor}; gradcheck says nothing.", **v
    ),
    "gradients-of-its-own": lambda _: say("not tried: a function of the script has a gradient of its own, on purpose"),
    "detached-on-purpose": lambda v: say(
        "not tried: {place} takes a value out of the graph, and all weights behind it are trained in another way", **v
    ),
    "straight-through": lambda v: say(
        "{function} is a step function with a gradient of its own; gradcheck says nothing.", **v
    ),
    "schedule-simulated": lambda v: say(
        "{scheduler} over {steps} steps: {first}, at most {peak} at step {peak_step}, {last} at the end.", **v
    ),
    "schedule-raises": lambda v: say("{scheduler} raises at step {step}: {error}", **v),
    "schedule-not-positive": lambda v: say(
        "{scheduler}: the learning rate is never above zero, or goes below it.", **v
    ),
    "schedule-zero": lambda v: say("{scheduler}: the learning rate is zero for {zeros} of {steps} steps.", **v),
    "schedule-far-below": lambda v: say(
        "{scheduler}: the learning rate is {peak} at most, and the optimizer was given {given}. LambdaLR multiplies: let its"
        " function give factors of that rate, not rates.",
        **v,
    ),
    "schedule-gone": lambda v: say(
        "{scheduler} is stepped with every optimizer step: the learning rate is below a thousandth of {peak} after {gone} steps."
        " Count its length in optimizer steps, or step it once an epoch.",
        **v,
    ),
    "schedule-within-epoch": lambda v: say(
        "{scheduler} is stepped with every optimizer step and made for {made_for} steps, but one epoch has {epoch} batches."
        " Count its length in optimizer steps, or step it once an epoch.",
        **v,
    ),
    "schedule-rises-again": lambda v: say(
        "{scheduler} is made for {made_for} steps of {steps}: the learning rate rises again after step {low_step}.", **v
    ),
    "schedule-cut": lambda v: say(
        "{scheduler} is made for {made_for} steps, and the run ends after {steps}: the learning rate is still {last}. Give it the"
        " number of steps that the run makes.",
        **v,
    ),
    "schedule-waves": lambda v: say(
        "{scheduler}: the learning rate is lowest after {half} steps and rises again, {lows} times in {steps} steps. A cosine"
        " does so beyond its end. Lay it over the steps that the run makes.",
        **v,
    ),
    "schedule-vanishes": lambda v: say(
        "{scheduler} is below a thousandth of its peak from step {gone} of {steps} on: most of the run trains nothing. Is it made"
        " for a shorter run, or in another unit?",
        **v,
    ),
    "term-flat": lambda v: say(
        "{term} has no graph where {text} adds it ({place}): it is in the printed loss, {value} for the last batch, and trains"
        " nothing. A detach(), an argmax or a no_grad() lies before it.",
        **v,
    ),
    "terms-with-graphs": lambda _: say("No term that is added to the loss is without a graph."),
    "schedule-stands-still": lambda v: say(
        "{scheduler} leaves the learning rate at {first} in all of {steps} steps: its period is {period}. Give it in the unit in"
        " which it is stepped.",
        **v,
    ),
    "schedule-cannot-fall": lambda v: say(
        "{scheduler} may not go below {least} (min_lr), and the learning rate is {lr}: it can never lower it.", **v
    ),
    "schedule-at-its-floor": lambda v: say(
        "{scheduler}: the learning rate comes to {last} at step {since} of {steps}, of a peak of {peak}, and stays there. Lay the"
        " schedule over the steps that the run makes.",
        **v,
    ),
    "schedule-only-rises": lambda v: say(
        "{scheduler}: the learning rate rises over all of {steps} steps, from {first} to {last}. The warm-up takes the whole run:"
        " look at its length.",
        **v,
    ),
    "schedule-outlasts": lambda v: say(
        "{scheduler} is laid over {end} steps, and the run ends after {steps}: the learning rate is still {last} of {peak}. Lay"
        " it over the steps that the run makes.",
        **v,
    ),
    "run-length": lambda v: say("The script's loops make {steps} optimizer steps.", **v),
    "run-length-unknown": lambda _: say(
        "not tried: the script's loops do not say how many steps the run has; give --total-steps"
    ),
    "schedule-never-falls": lambda v: say("{scheduler} is still warming up at the last of {steps} steps.", **v),
    "tokenizer-same": lambda v: say(
        "The tokenizer equals the saved one: vocabulary, special tokens, {texts} texts.", **v
    ),
    "tokenizer-special": lambda v: say("The tokenizers differ in {what}: {used} is used, {saved} is saved.", **v),
    "tokenizer-vocabulary": lambda v: say(
        "The tokenizers' vocabularies differ ({sizes}), first in {token}: {used} is used, {saved} is saved.", **v
    ),
    "tokenizer-ids": lambda v: say(
        "The tokenizers part at token {place} of “{text}”: {used} is used, {saved} is saved.", **v
    ),
    "tokenizer-setting": lambda v: say("The tokenizers differ in {what}: {used} is used, {saved} is saved.", **v),
    "padding-is-a-token": lambda v: say(
        "The tokenizer gives {count} of {tokens} tokens of “{text}” the number {index}, which {embedding} keeps at zero for"
        " padding (padding_idx).",
        **v,
    ),
    "padding-inside": lambda v: say(
        "Number {number} is padding (padding_idx of {embedding}), yet it stands alone inside {rows} of {samples} rows of the"
        " first batch, first at place {place} of row {row}: a token that means something has this number too. Give padding a"
        " number of its own.",
        **v,
    ),
    "named-padding-inside": lambda v: say(
        "The script calls {number} padding, yet it stands alone inside {rows} of {samples} rows of the first batch, first at"
        " place {place} of row {row}: a token that means something has this number too. Give padding a number of its own.",
        **v,
    ),
    "filled-otherwise-end": lambda v: say(
        "{rows} of {samples} rows of the first batch are filled up with {filler} at their ends, and padding is {number}, which"
        " stands nowhere. What masks padding sees none, and {filler} means something else. Fill up with {number}.",
        **v,
    ),
    "filled-otherwise-begin": lambda v: say(
        "{rows} of {samples} rows of the first batch are filled up with {filler} at their beginnings, and padding is {number},"
        " which stands nowhere. What masks padding sees none, and {filler} means something else. Fill up with {number}.",
        **v,
    ),
    "padding-outside": lambda v: say("Padding stands at the ends of the rows alone.", **v),
    "classes-in-order-of-a-listing": lambda v: say(
        "The numbers of {count} classes in {name} follow the order in which {place} listed a folder, which the file system"
        " decides. {saved} saves the model without the names. Sort them, or save them and load them.",
        **v,
    ),
    "graph-whole": lambda v: say("The graph of the outputs ends in all weights that change them.", **v),
    "graph-cut": lambda v: say(
        "{count} of {parameters} weight tensors, first {first}, change the output, but no gradient comes from it to them; another"
        " term of the loss alone trains them. A detach(), a no_grad() or an operator without a gradient (argmin, round) lies"
        " between: pass the gradient straight through, as in z + (q - z).detach().",
        **v,
    ),
    "edges-without-offset": lambda v: say(
        "The first batch joins {graphs} graphs of {nodes} nodes, but its {edges} edges name no node beyond {largest}: all of them"
        " lie in the first graphs. Add to the edges of each graph the number of nodes before it.",
        **v,
    ),
    "edges-cross": lambda v: say(
        "{crossing} of {edges} edges of the first batch join nodes of two of its {graphs} graphs: add to the edges of each graph"
        " the number of all nodes before it (a cumulative sum).",
        **v,
    ),
    "edges-of-their-graphs": lambda v: say("Each of {edges} edges joins nodes of one of {graphs} graphs.", **v),
    "no-graphs": lambda v: say("not tried: no batch of graphs enters the model", **v),
    "masks-turned": lambda v: say(
        "{turned} of {images} images fit their mask better when it is turned ({turn}): a random flip goes for an image and its"
        " mask together. Draw it once for both.",
        **v,
    ),
    "masks-aligned": lambda v: say("{images} images fit their masks as they are.", **v),
    "sample-same": lambda v: say("Reading {samples} samples again, others in between, gave the same values.", **v),
    "samples-beyond": lambda v: say(
        "The data set says that it has {samples} samples, fewer than a batch of {batch}, and has many more behind them. Its"
        " __len__ counts the lists that hold them.",
        **v,
    ),
    "words-numbered-apart": lambda v: say(
        "{word} is {here} in {one}{place} and {there} in {other}{place}; {count} words differ. Give both data sets one"
        " vocabulary.",
        **v,
    ),
    "flipped-together": lambda v: say("Images and their targets are mirrored together.", **v),
    "flipped-apart": lambda v: (
        say(
            "Field {field} of a sample is mirrored ({side}), and its image never: {apart} of {readings} readings showed it."
            " Mirror both.",
            **v,
        )
        if v["alone"]
        else say(
            "Field {field} of a sample and its image are mirrored ({side}) by different draws: in {apart} of {readings}"
            " readings one of both was. Mirror both by one draw.",
            **v,
        )
    ),
    "sample-changed": lambda v: say(
        "Reading sample {index} again, with equal random numbers, gave other values. Field {field} differs by {share} of its"
        " size. Reading changes {path}, from {before} to {after} (root mean square). Make a new array in place of changing it:"
        " x = x / w, not x /= w.",
        **v,
    ),
    "sample-by-chance": lambda _: say("not tried: samples differ from reading to reading"),
    "samples-vary": lambda _: say("not tried: samples differ from reading to reading"),
    "samples-few-values": lambda _: say("not tried: samples have too few values to tell them apart"),
    "reading-failed": lambda v: say("not tried: samples cannot be read in a copy of the process ({error})", **v),
    "positions-in-both": lambda v: say(
        "{shared} of {looked} positions of {name} are trained on too. What is measured there is partly learnt by heart. A second"
        " split gives positions within the rest: take rest[positions].",
        **v,
    ),
    "positions-apart": lambda v: say("{shared} of {looked} positions of {name} are trained on too.", **v),
    "samples-in-both": lambda v: say(
        "{shared} of {looked} samples of {name} are among {read} of {all} training samples too. What is measured there is partly"
        " learnt by heart. A second split gives positions within the rest: take rest[positions]. Give each set its own cache.",
        **v,
    ),
    "samples-apart": lambda v: say(
        "{shared} of {looked} samples of {name} are among {read} of {all} training samples too.", **v
    ),
    "no-masks": lambda v: say("not tried: no images with a target of a few values for each pixel", **v),
    "masks-tell-nothing": lambda v: say("not tried: images and masks do not tell how they lie", **v),
    "special-number-of-a-word": lambda v: say(
        "{attribute} of the tokenizer is {number}, which is the word {word}; the vocabulary has {token} as {right}: take its"
        " number from the vocabulary.",
        **v,
    ),
    "special-token-split": lambda v: say(
        "{token} is taken apart: {rows} rows of the first batch hold its pieces ({parts}), and none holds its number {number}."
        " Add the number itself, or have the tokenizer leave special tokens whole.",
        **v,
    ),
    "end-ignored": lambda v: say(
        "The loss ignores {number}, which is the token that ends a text: the model never learns to stop. Give padding a number of"
        " its own.",
        **v,
    ),
    "mostly-unknown": lambda v: say(
        "{count} of {tokens} tokens of the first batch are {number}, the number of unknown words: texts and vocabulary do not"
        " fit, as where one is in capitals and the other is not.",
        **v,
    ),
    "end-missing": lambda v: say(
        "{rows} padded rows of the first batch begin with the token for the start, and none holds {number}, the one for the end:"
        " the model never learns to stop. Append it to each text.",
        **v,
    ),
    "end-cut-off-longest": lambda v: say(
        "{encoder} ends a text with {number}, but not the longest text of a batch: its last tokens are cut off. {rows} of"
        " {samples} rows of the first batch are full and hold no end. Leave room for the special tokens in the width.",
        **v,
    ),
    "end-cut-where-read": lambda v: say(
        "{encoder} ends short texts with {number}, and texts that it cuts to {width} tokens without. {place} looks for the place"
        " of the end. {rows} of {samples} rows of the first batch hold none. Make the last token of a cut text the end.",
        **v,
    ),
    "special-tokens": lambda v: say("{count} special tokens have their own numbers.", **v),
    "padding-apart": lambda v: say("No token of {texts} texts has the number that is kept at zero for padding.", **v),
    "tokenizer-returns": lambda v: say("Decoding gives {texts} encoded texts back.", **v),
    "tokenizer-loses": lambda v: say("The tokenizer gives “{back}” back for “{text}”.", **v),
    "not-repeatable": lambda _: say("not tried: the same iteration does not give the same numbers twice"),
    "batch-unknown": lambda _: say("not tried: which dimension is that of the samples is not certain"),
    "input-without-samples": lambda v: say(
        "not tried: an input of the model has no dimension of {samples} samples", **v
    ),
    "output-without-samples": lambda v: say(
        "not tried: the output ({shape}) has no dimension of {samples} samples", **v
    ),
    "no-output": lambda _: say("not tried: the model gives no floating-point tensor"),
    "no-language-model": lambda _: say("not tried: the targets are not the input's next tokens"),
    "no-outputs-by-token": lambda _: say("not tried: the output has no dimension of tokens"),
    "target-unknown": lambda _: say("not tried: no loss function of torch was given a target"),
    "outputs-alike": lambda _: say("not tried: the model gives all samples the same"),
    "targets-all-equal": lambda _: say("not tried: all targets of the batch are equal"),
    "other-model": lambda _: say("not tried: what enters the first model does not reach the output of the last"),
    "several-optimizers": lambda v: say("not tried: {optimizers} optimizers train against each other", **v),
    "several-backwards": lambda v: say("not tried: an iteration has {backwards} backwards", **v),
    "batch-not-fixed": lambda _: say(
        "not tried: the same batch cannot be had twice, it does not come from a DataLoader"
    ),
    "no-loss": lambda _: say("not tried: no finite loss was seen"),
    "no-gradient-asked": lambda v: say("not tried: {function} was called without anything that wants a gradient", **v),
    "function-too-large": lambda v: say("not tried: {function} was called with too many elements", **v),
    "function-raised": lambda v: say("not tried: {function} cannot be called in float64 ({error})", **v),
    "schedule-of-a-metric": lambda v: say("not tried: {scheduler} looks at a metric", **v),
    "schedule-without-end": lambda v: say("not tried: {scheduler} does not say its length; give --total-steps", **v),
    "schedule-not-copied": lambda v: say("not tried: {scheduler} cannot be copied ({error})", **v),
    "no-tokenizer": lambda _: say("not tried: no tokenizer was seen, or none to compare with; give --tokenizer"),
    "tokenizer-raised": lambda v: say("not tried: the tokenizer raised {error}", **v),
    "no-texts": lambda _: say("not tried: there were no texts"),
    "probe-raised": lambda v: say("not tried: the probe itself failed ({error}); please report it", **v),
    "trial-raised": lambda v: say("not tried: the script raised {error}", **v),
    "loop-ended": lambda _: say("not tried to the end: the script's loop ended"),
}
"""Code of a result → its sentence."""
