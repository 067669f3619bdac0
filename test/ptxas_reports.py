"""What `ptxas -v` says of kernels, as aot-compile --save-temps keeps it."""

KEPT_IN_REGISTERS = ("map", "contract", "attention")


def find_problems(folder, kept=KEPT_IN_REGISTERS):
    """File name -> report, of the kernels that should keep everything in registers and do not, or whose products wait for each other."""
    reports = {report.name: report.read_text() for report in sorted(folder.glob("*.txt")) if report.name.startswith(kept)}
    return {
        name: text
        for name, text in reports.items()
        if "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" not in text or "Potential Performance Loss" in text
    }
