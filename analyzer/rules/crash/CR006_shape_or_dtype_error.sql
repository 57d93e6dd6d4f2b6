/*
code = "CR006"
name = "shape-or-dtype-error"
severity = "fatal"
phase = "forward"
signal = "exception"
message = "Tensors did not fit at step {step}{in_module_}: {short}. At hand were {tensors}{changed_}."
fix = "{remedy_}"
seeks = ["exits: exception_type IS NOT NULL AND exception_message IS NOT NULL"]
explains = ["python-exception"]
[say.in_module_]
root = " in the root module"
root_classed = " in the root module ({module_class})"
named = " in module {module}"
classed = " in module {module} ({module_class})"
[say.place_]
model = "the model"
named = "{module}"
[say.changed_]
field_of_the_batch = ", and field {field} of the batch changed from {old_shape} {old_dtype} (step {old_step}) to {shape} {dtype}"
[say.remedy_]
compare = "Compare these shapes, dtypes and devices with what {place_} was built for. If they changed at this step, look at the collate function and the sample behind the batch."
devices = "Move what lies elsewhere: the batch with .to(device), what forward makes with device=x.device, constants of the model with register_buffer."
attribute = "{attribute} of {place_} is a plain tensor on {attribute_device}: .to() moves parameters and buffers only. Register it with register_buffer, or make it in forward with device=x.device."
[params.shown]
value = 4
unit = "tensors"
doc = "Tensors that a sentence names."
source = "convention: of this project, more are not read"
[needs]
ended = true
[doc]
what = "The exception that ended the run is one of torch's about shape, dtype or device. The recorder adds what it saw of the module's inputs."
why = "The message names an operator; the shapes of before name the moment at which the data changed."
not_this = "Other exceptions, labels out of range, indices out of range of an embedding."
source = "Messages of PyTorch."
*/
WITH raised AS (
    SELECT * FROM exits e
    WHERE regexp_extract(e.exception_type, '[A-Za-z]+$') IN ('RuntimeError', 'ValueError', 'TypeError',
        'IndexError', 'AssertionError')
      AND regexp_matches(e.exception_message,
          '(?i)(shapes? cannot be multiplied|size mismatch|sizes? of tensors? .*must match|must match the '
          '(existing )?size|is invalid for input of size|inconsistent tensor size|size of tensor a|mat1 and '
          'mat2|same (dtype|device)|expected .*(dtype|scalar type|data ?type|floating '
          'point|input|tensor|device|dim|batch|channels|stride|size|shape|\dD)|given groups|not '
          'broadcastable|cannot be broadcast|broadcast|stack expects each tensor|on the same device|input '
          'type .* weight type|bias type .* should be the same|dimension out of range|dimension specified '
          'as|doesn.t match|does not match|using a target size|different '
          '(shape|size|number)|non-?contiguous.*view|view size is not compatible|shape .* is invalid|too '
          'many indices|number of dimensions|must be (equal|the same|\d-?d)|cannot cast|can.t be cast|not '
          'implemented for .(Half|Long|Int|Double|Float|Bool|Char|Byte|BFloat16|ComplexFloat).|got '
          '.*(dtype|shape|tensor of size|torch\.)|wrong '
          '(size|shape)|(tensors?|shapes?|sizes?|dim(ension)?s?|dtypes?)\W.{0,40}mismatch'
          '|mismatch.{0,40}\W(tensors?|shapes?|sizes?|dim(ension)?s?|dtypes?)|can.t be greater than actual '
          'input size|output size is too small|should be less than the corresponding input '
          'dimension|divisible by|expecting .*(dimension|dim|size|shape)|inconsistent '
          '(input|tensor|size|shape|batch)|should be equal to source|be a matrix|square matrices|tensor of '
          'type (Long|Float|Int)|infer output dtype|same number of|has to be a \dD|created only for '
          'scalar|element tensors can be converted|cannot be converted to Scalar|don.t multiply up|expects '
          'split_sizes|got input size|found dtype|multi-target not supported|tensor expected, |used as '
          'indices must be|cannot reshape tensor|targets of (dimension|size)|should contain \d+ elements)')
      AND NOT regexp_matches(e.exception_message,
          '(Target -?\d+ is out of bounds|index out of range in self|device-side assert|does not require '
          'grad|constraint|state_dict|nan\b)')
), entered AS (
    SELECT string_agg(concat_ws(' ', coalesce(name, origin),
        coalesce('[' || array_to_string(shape, ', ') || ']', '?'), dtype, device), '; ' ORDER BY ordinal)
        AS tensors
    FROM exception_tensors
    -- without a module in flight the variables of the innermost frame say the most
    WHERE ordinal < $shown AND origin = CASE
        WHEN EXISTS (SELECT 1 FROM exception_tensors WHERE origin = 'input') THEN 'input' ELSE 'local' END
), batch_now AS (
    SELECT b.rank, b.field, b.role, b.shape, b.dtype, b.step, b.seq
    FROM batches b
    JOIN raised r ON coalesce(r.rank, 0) = b.rank AND b.step = r.step
), change AS (
    -- the first field whose trailing shape or dtype differs from its last batch before
    SELECT n.field, n.shape, n.dtype, p.shape AS old_shape, p.dtype AS old_dtype, p.step AS old_step
    FROM batch_now n
    JOIN batches p ON p.rank = n.rank
        AND p.field = n.field
        AND p.role = n.role
        AND p.step < n.step
        AND p.phase <> 'eval'
    QUALIFY row_number() OVER (PARTITION BY n.seq ORDER BY p.step DESC, p.seq DESC) = 1
), changed AS (
    FROM change
    WHERE shape[2:] IS DISTINCT FROM old_shape[2:] OR dtype IS DISTINCT FROM old_dtype
    ORDER BY field LIMIT 1
), stayed AS (
    -- an attribute of the module in flight that lies elsewhere than what entered it
    SELECT a.name AS attribute, a.device AS attribute_device FROM exception_tensors a
    WHERE a.origin = 'attribute'
      AND EXISTS (SELECT 1 FROM exception_tensors i WHERE i.origin = 'input' AND i.device <> a.device)
    ORDER BY a.ordinal LIMIT 1
)
SELECT coalesce(r.rank, 0) AS rank,
    coalesce(r.step, (SELECT max(step) + 1 FROM steps WHERE completed), 0) AS step, r.microbatch,
    coalesce(r.phase, 'forward') AS phase,
    r.module, NULL::VARCHAR AS tensor, NULL::DOUBLE AS value, r.exception_type, r.exception_message,
        r.module_class, r.user_frame,
    r.exception_type || ': ' || rtrim(first_line(r.exception_message), '.') AS short,
    CASE
        WHEN r.module = '' THEN CASE WHEN r.module_class IS NULL THEN 'root' ELSE 'root_classed' END
        WHEN r.module IS NOT NULL THEN CASE WHEN r.module_class IS NULL THEN 'named' ELSE 'classed' END
        END AS in_module_,
    CASE WHEN r.module <> '' THEN 'named' ELSE 'model' END AS place_, (FROM entered) AS tensors,
    CASE WHEN c.field IS NOT NULL THEN 'field_of_the_batch' END AS changed_,
    c.field, c.shape, c.dtype, c.old_shape, c.old_dtype, c.old_step, s.attribute, s.attribute_device,
    CASE WHEN NOT regexp_matches(r.exception_message, '(?i)same device|on device|expected device')
        THEN 'compare'
        WHEN s.attribute IS NOT NULL THEN 'attribute' ELSE 'devices' END AS remedy_
FROM raised r LEFT JOIN changed c ON true LEFT JOIN stayed s ON true
