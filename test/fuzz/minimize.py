"""Makes a program that fails small: fewer results, fewer steps, steps that only pass an operand on."""

import dataclasses

from program import Step


def without_dead(program):
    """Less the steps that nothing needs. Writes stay as long as what they write is needed."""
    needed, kept = {*program.outputs, *program.state}, []
    for step in reversed(program.steps):
        if step.result in needed or not step.result:
            needed.update(step.operands())
            kept.append(step)
    return dataclasses.replace(program, steps=tuple(reversed(kept)))


def candidates(program):
    """Smaller programs, the smallest first."""
    if len(program.outputs) > 1:
        for name in program.outputs:
            yield dataclasses.replace(program, outputs=(name,))
        for name in program.outputs:
            yield dataclasses.replace(program, outputs=tuple(other for other in program.outputs if other != name))
    for size in (16, 8, 4, 2, 1):
        for start in range(0, len(program.steps), size):
            yield dataclasses.replace(program, steps=program.steps[:start] + program.steps[start + size :])
    for at, step in enumerate(program.steps):
        if not step.result:
            continue
        for operand in step.operands():
            passed = Step(f"{step.result} = {operand}", step.result, True, entry=step.entry)
            if step.text != passed.text:
                yield dataclasses.replace(program, steps=program.steps[:at] + (passed,) + program.steps[at + 1 :])
        if "\n" in step.text:
            yield dataclasses.replace(
                program, steps=program.steps[:at] + (dataclasses.replace(step, text=step.text.splitlines()[0]),) + program.steps[at + 1 :]
            )
    for at, step in enumerate(program.steps):  # a result of two dims less, or of plainer inputs
        for name in step.operands():
            for other in program.inputs:
                if other.name != name:
                    text = step.text.replace(name, other.name)
                    yield dataclasses.replace(
                        program, steps=program.steps[:at] + (dataclasses.replace(step, text=text),) + program.steps[at + 1 :]
                    )
    if any(len(i.tensors) > 1 for i in program.inputs):
        yield dataclasses.replace(program, inputs=tuple(dataclasses.replace(i, tensors=i.tensors[:1], dynamic=()) for i in program.inputs))


def runs(program):
    try:
        program.execute()
        return bool(set(program.outputs) <= {step.result for step in program.steps} | {i.name for i in program.inputs})
    except Exception:
        return False


def minimize(program, fails, attempts=150):
    """The smallest program found for which `fails` holds."""
    smaller = without_dead(program)
    program = smaller if smaller.steps != program.steps and runs(smaller) and fails(smaller) else program
    found, tried = True, {program.describe()}
    while found and attempts > 0:
        found = False
        for candidate in candidates(program):
            candidate = without_dead(candidate)
            if candidate.describe() in tried or not runs(candidate):
                continue
            tried.add(candidate.describe())
            attempts -= 1
            if fails(candidate):
                program, found = candidate, True
                break
            if attempts <= 0:
                break
    return program
