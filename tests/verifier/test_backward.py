"""The commands that derive: what they print, what they refuse and where, and their exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from calculus.equivalence import difference
from grammar.read import read
from tests.calculus.test_gradients import FANOUT, LOSS, LOSS2
from verifier.cli import main


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, list(arguments), input=stdin, prog_name="shardproof")


@pytest.fixture
def loss(tmp_path: Path) -> str:
    path = tmp_path / "loss.jaxpr"
    path.write_text(LOSS2)
    return str(path)


def test_grad_prints_a_program_that_checks(loss: str) -> None:
    """On standard output the program alone, with its mesh; beside it what the forward and the backward pass cost."""
    found = run("grad", loss, "--mesh", "X=2", "--wrt", "a")
    assert found.exit_code == 0
    assert found.stdout.startswith("# mesh: X=2\n{ lambda ; a:f32[4,2] b:f32[8@X,4]. let\n")
    assert "1 collective, 1 run · 4 bytes per device" in found.stderr  # forward: the loss itself
    assert "(gradient): well typed · 11 equations · 1 collective, 1 run · 32 bytes per device" in found.stderr
    again = run("check", "-", stdin=found.stdout)
    assert again.exit_code == 0
    assert "32 bytes per device" in again.stdout


def test_the_gradient_of_a_gradient(loss: str) -> None:
    """What is printed can be differentiated again: ∂(Σ ∂loss/∂a)/∂a needs the pending sum's reduced cotangent."""
    first = run("grad", loss, "--mesh", "X=2", "--wrt", "a").stdout
    total = first.replace("in (l,) }", "  m:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] l\n  in (m,) }")
    assert total != first
    second = run("grad", "-", "--wrt", "a", stdin=total)
    assert second.exit_code == 0, second.stderr
    assert run("check", "-", stdin=second.stdout).exit_code == 0


def test_wrt_names_inputs(loss: str) -> None:
    both = run("grad", loss, "--mesh", "X=2").stdout
    assert both == run("grad", loss, "--mesh", "X=2", "--wrt", "a,b").stdout
    swapped = read(run("grad", loss, "--mesh", "X=2", "--wrt", "b, a").stdout).program
    assert swapped.outputs == read(both).program.outputs[::-1]
    wrong = run("grad", loss, "--mesh", "X=2", "--wrt", "q")
    assert (wrong.exit_code, "q is no input of the program, whose inputs are a, b" in wrong.stderr) == (2, True)
    nothing = run("grad", loss, "--mesh", "X=2", "--wrt", "")
    assert (nothing.exit_code, "nothing is no input of the program" in nothing.stderr) == (2, True)


def test_vjp_takes_the_cotangents(loss: str) -> None:
    found = run("vjp", loss, "--mesh", "X=2")
    program = read(found.stdout).program
    assert found.exit_code == 0
    assert [str(type) for type in program.input_types] == ["f32[4,2]", "f32[8@X,4]", "f32[]"]
    assert len(program.outputs) == 3


def test_check_prices_the_backward_pass_at_the_lines_of_the_file(loss: str) -> None:
    """The all-reduce of the weight's gradient stands at the reshard, whose transpose it is."""
    found = run("check", loss, "--backward", "--mesh", "X=2")
    assert found.exit_code == 0
    assert "(forward and backward): well typed" in found.stdout
    assert "     2  reshard     all-reduce  X        32    32" in found.stdout


@pytest.mark.parametrize(("text", "bytes_in_all"), [(LOSS, 36), (LOSS2, 36), (FANOUT, 40)])
def test_the_price_is_the_hand_calculation(text: str, bytes_in_all: int) -> None:
    """4 bytes for each loss that is summed, 32 for the gradient of the weight, once (the gradients of `b` and `c` cost
    nothing): with the cast and without (statement A27), and once for the fan-out with it (A29)."""
    found = run("check", "-", "--backward", "--mesh", "X=2", "--json", stdin=text)
    reports = json.loads(found.stdout)
    assert [report["total_bytes"] for report in reports][1] == bytes_in_all


def test_json_has_the_program_and_both_reports(loss: str) -> None:
    found = json.loads(run("grad", loss, "--mesh", "X=2", "--wrt", "a", "--json").stdout)
    text = run("grad", loss, "--mesh", "X=2", "--wrt", "a").stdout
    assert difference(read(found["program"]).program, read(text).program) == ""
    assert [report["total_bytes"] for report in found["reports"]] == [4, 32]
    assert [report.get("derived") for report in found["reports"]] == [None, "gradient"]


def test_all_the_meshes_of_a_program_are_printed() -> None:
    """The transpose of a change of mesh changes it back; without the sizes neither would be priced."""
    text = (
        "# mesh: X=4, Y=2; A=8\n{ lambda ; a:f32[8@X,4@Y]. let\n    b:f32[8@A,4] = reshard a\n"
        "    c:f32[8@A,4] = mul b 2.0:f32[]\n  in (c,) }\n"
    )
    printed = run("vjp", "-", stdin=text).stdout
    assert printed.startswith("# mesh: X=4, Y=2; A=8\n")
    priced = json.loads(run("check", "-", "--json", stdin=printed).stdout)
    backward = json.loads(run("check", "-", "--backward", "--json", stdin=text).stdout)
    assert priced[0]["total_bytes"] == backward[1]["total_bytes"] == 2 * backward[0]["total_bytes"] > 0


def test_a_gradient_of_many_numbers_points_at_the_result() -> None:
    found = run("grad", "-", stdin="# mesh: X=4\n{ lambda ; a:f32[8@X]. let\n    b:f32[8@X] = sin a\n  in (b,) }\n")
    assert found.exit_code == 1
    assert "<stdin> (gradient):4:7: unsound: in the backward pass: the program's results are f32[8@X]" in found.stderr


def test_a_refusal_points_at_the_forward_equation() -> None:
    text = (
        "{ lambda ; a:f32[4]. let\n    b:f32[4] = neg a\n    c:f32[4] = igamma_grad_a b b\n"
        "    d:f32[] = reduce_sum[axes=(0,) out_sharding=None] c\n  in (d,) }\n"
    )
    found = run("check", "-", "--backward", stdin=text)
    assert found.exit_code == 1
    assert "3 │" in found.stdout or ":3:" in found.stdout
    assert "in the backward pass: the derivative of igamma_grad_a is not written" in found.stdout
    assert run("grad", "-", stdin=text).exit_code == 1


def test_an_ill_typed_program_has_no_gradient() -> None:
    found = run("grad", "-", "--mesh", "X=2", stdin="{ lambda ; a:f32[4]{U:X}. let b:f32[4]{U:X} = cos a in (b,) }")
    assert (found.exit_code, found.stdout) == (1, "")
    assert "unsound" in found.stderr


def test_an_assumed_rule_is_said() -> None:
    """A custom_jvp_call does not print its rule: the body's derivative is taken, and that is counted."""
    text = (
        "{ lambda ; a:f32[]. let\n    b:f32[] = custom_jvp_call[\n      name=relu\n"
        "      call_jaxpr={ lambda ; c:f32[]. let d:f32[] = max c 0.0:f32[] in (d,) }\n      jvp=jvp\n"
        "      symbolic_zeros=False\n    ] a\n  in (b,) }\n"
    )
    found = run("grad", "-", stdin=text)
    assert found.exit_code == 0
    assert "assumed: the rule of custom_jvp_call relu is not printed, and taken to be that of its body" in found.stderr
    assert "well typed on 1 assumption" in found.stderr


def test_linearize_prints_both_programs_and_a_call_of_each(loss: str) -> None:
    """By hand: the residuals of Σ (b a)² in a are b and 2 b a; one all-reduce of a loss, and one of its tangent."""
    found = run("linearize", loss, "--mesh", "X=2", "--wrt", "a")
    assert found.exit_code == 0
    document = read(found.stdout)
    assert [name for name, _ in document.definitions] == ["forward", "linear"]
    (_, forward), (_, linear) = document.definitions
    assert [str(type) for type in linear.input_types] == ["f32[8@X,4]", "f32[8@X,2]", "f32[4,2]"]
    assert len(forward.outputs) == 3
    assert [str(type) for type in document.program.input_types] == ["f32[4,2]", "f32[8@X,4]", "f32[4,2]"]
    assert [str(type) for one in document.program.equations for type in one.types][-1] == "f32[]"
    assert "(linearization): well typed" in found.stderr
    again = run("check", "-", stdin=found.stdout)
    assert again.exit_code == 0
    assert "2 collectives, 2 runs · 8 bytes per device" in again.stdout
    for part, program in (("forward", forward), ("linear", linear)):
        alone = run("linearize", loss, "--mesh", "X=2", "--wrt", "a", "--part", part)
        assert difference(read(alone.stdout).program, program) == ""


def test_the_linear_part_is_transposed_by_the_next_command(loss: str) -> None:
    """What comes out is the backward pass: 32 bytes for the sum of the weight's gradient."""
    linear = run("linearize", loss, "--mesh", "X=2", "--wrt", "a", "--part", "linear").stdout
    last = read(linear).program.inputs[-1]
    found = run("transpose", "-", "--linear", last, stdin=linear)
    assert found.exit_code == 0
    assert "(transpose): well typed" in found.stderr
    program = read(found.stdout).program
    assert [str(type) for type in program.input_types] == ["f32[8@X,4]", "f32[8@X,2]", "f32[]"]
    checked = json.loads(run("check", "-", "--json", stdin=found.stdout).stdout)
    assert [(row["kind"], row["bytes"]) for row in checked[0]["communication"]] == [("all-reduce", 32)]
    assert run("transpose", "-", "--wrt", last, stdin=linear).stdout == found.stdout


def test_a_program_that_is_not_linear_is_refused_where_it_is_not() -> None:
    text = "{ lambda ; a:f32[4] b:f32[4]. let\n    c:f32[4] = mul a 2.0:f32[]\n    d:f32[4] = mul c b\n  in (d,) }\n"
    found = run("transpose", "-", stdin=text)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "<stdin> (transpose):3:16: unsound: the program is not linear at mul" in found.stderr
    assert "[not-linear]" in found.stderr
    assert run("transpose", "-", "--linear", "b", stdin=text).exit_code == 0
    (_, data) = json.loads(run("transpose", "-", "--json", stdin=text).stdout)["reports"]
    assert (data["derived"], data["refusals"][0]["code"]) == ("transpose", "not-linear")
    wrong = run("transpose", "-", "--linear", "q", stdin=text)
    assert (wrong.exit_code, "Invalid value for --linear: q is no input" in wrong.stderr) == (2, True)


@pytest.mark.parametrize("command", ["grad", "vjp", "linearize", "transpose"])
def test_an_interrupt(command: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("verifier.backward.made", stopped)
    found = run(command, loss, "--mesh", "X=2")
    assert (found.exit_code, found.stdout, found.stderr) == (130, "", "Interrupted\n")


def test_an_input_that_is_named_twice_is_one(loss: str) -> None:
    for command in ("grad", "vjp", "linearize"):
        once = run(command, loss, "--mesh", "X=2", "--wrt", "a")
        assert (once.exit_code, run(command, loss, "--mesh", "X=2", "--wrt", "a,a").stdout) == (0, once.stdout)


@pytest.mark.parametrize("command", ["vjp", "linearize", "transpose"])
def test_a_pending_maximum_is_not_differentiable(command: str) -> None:
    """Nor is it linear: the maximum of sums is not the sum of maxima. The refusal points at the input."""
    text = "{ lambda ; b:f32[2] a:f32[4]{U_max:X}. let in (a, b) }"
    found = run(command, "-", "--wrt", "a", "--mesh", "X=2", stdin=text)
    assert (found.exit_code, found.stdout) == (1, "")
    assert f":1:{text.index('a:f32') + 1}: unsound: " in found.stderr
    assert "[no-cotangent]" in found.stderr


@pytest.mark.parametrize("command", ["grad", "vjp", "linearize", "transpose"])
def test_what_does_not_read_is_malformed_for_each_command(command: str) -> None:
    for text in ("", "nonsense", "{ lambda ; a:f32[4]. let in (b,) }"):
        found = run(command, "-", stdin=text)
        assert (found.exit_code, found.stdout) == (2, "")
        assert json.loads(run(command, "-", "--json", stdin=text).stdout)["reports"][0]["verdict"] == "malformed"
    assert run(command).exit_code == 2
    missing = run(command, "missing.jaxpr")
    assert (missing.exit_code, "cannot be read" in missing.stderr) == (2, True)


def test_what_is_reduced_in_the_backward_pass_says_of_which_equation_it_is_the_transpose(loss: str) -> None:
    (_, data) = json.loads(run("check", loss, "--backward", "--mesh", "X=2", "--json").stdout)
    facts = [(row["line"], row.get("forward")) for row in data["communication"]]
    assert facts == [(2, "reshard f32[4,2] -> f32[4,2]{R:X}"), (5, None)]


@pytest.mark.parametrize(
    ("primitive", "parameters"),
    [
        ("triangular_solve", "left_side=True lower=False transpose_a=False unit_diagonal=False foo=Bar(x=Baz(1))"),
        (
            "triangular_solve",
            "left_side=True lower=False transpose_a=False unit_diagonal=False foo={ lambda ; . let in () }",
        ),
        ("symmetric_product", "alpha=nan beta=zz"),
        ("symmetric_product", "alpha=1e999 beta=1.0"),
    ],
)
def test_parameters_that_no_derivative_can_have_are_refused(primitive: str, parameters: str) -> None:
    """What a row says of its equation's parameters is read again: what cannot be is refused."""
    conjugate = "conjugate_a=False " if primitive == "triangular_solve" else ""
    text = (
        f"{{ lambda ; a:f32[3,3] b:f32[3,3]. let\n    c:f32[3,3] = {primitive}[{conjugate}{parameters}] a b\n"
        "    d:f32[] = reduce_sum[axes=(0, 1) out_sharding=None] c\n  in (d,) }\n"
    )
    found = run("grad", "-", stdin=text)
    assert (found.exit_code, found.stdout) == (1, "")
    assert "unmodelled: in the backward pass: the" in found.stderr


def test_a_text_that_calls_for_too_many_residuals_is_refused_at_once() -> None:
    """Each definition calls the one before it twice: 2⁴⁰ values would be saved."""
    lines = ["let f0 = { lambda ; a:f32[]. let b:f32[] = sin a in (b,) } in"]
    for number in range(1, 40):
        call = f"jit[name=f jaxpr=f{number - 1}]"
        lines.append(f"let f{number} = {{ lambda ; a:f32[]. let b:f32[] = {call} a; c:f32[] = {call} b in (c,) }} in")
    lines.append("{ lambda ; a:f32[]. let b:f32[] = jit[name=f jaxpr=f39] a in (b,) }")
    found = run("grad", "-", stdin="\n".join(lines))
    assert found.exit_code == 1
    assert "saves more than 16384 values" in found.stderr
