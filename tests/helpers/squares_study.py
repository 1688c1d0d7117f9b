"""A study of few points, for tests of how studies are measured."""

from study_points import squares

from papers.studies.criteria import exactly
from papers.studies.paper import Conclusion, Finding, Study


def conclude(results):
    total = sum(result["square"] for _, result in results)
    assert all(result["pair"] == [1, 2] for _, result in results)
    verdict = exactly(14).judge(total)
    return Conclusion([Finding("numbers: sum of squares", float(total), verdict, paper="14")])


def study(log, run=squares, name="squares", **more):
    return Study(
        name=name,
        about="Squares",
        points=lambda quick=False: [
            {"number": number, "log": str(log), **more} for number in range(2 if quick else 4)
        ],
        run=run,
        label=lambda point: f"{name} at {point['number']}",
        conclude=conclude,
        paper="Nobody's paper",
        source="None",
    )
