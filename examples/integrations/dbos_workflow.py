"""A DBOS workflow that asks. Kill it while it waits, start it again, and it goes on with the answer.

Run it with: python examples/integrations/dbos_workflow.py
It needs: pip install "handraise[dbos]"
"""

from dbos import DBOS, SetWorkflowID

from handraise.blocking import open_desk
from handraise.integrations.dbos import ask


@DBOS.step()
def build(version: str) -> None:
    """Something that should happen once."""
    print("built", version, flush=True)


@DBOS.workflow()
def deploy(version: str) -> str:
    """Build, ask, go on."""
    build(version)
    strategy = ask(desk, f"How shall {version} go out?", choices=["Canary", "Rolling"])
    return f"{version} goes out as {strategy}"


with open_desk() as desk:
    DBOS(config={"name": "deploys", "system_database_url": "sqlite:///deploys.sqlite"})
    DBOS.launch()
    with SetWorkflowID("deploy-42"):
        print(DBOS.start_workflow(deploy, "v42").get_result())
    DBOS.destroy()
