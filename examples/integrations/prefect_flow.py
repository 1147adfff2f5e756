"""A Prefect flow that asks. While it waits there is no process of it, so there is nothing to kill.

Run it with: python examples/integrations/prefect_flow.py
It needs: pip install "handraise[prefect]"
"""

from prefect import flow, task

from handraise.blocking import open_desk
from handraise.integrations.prefect import ask


@task(persist_result=True)
def build(version: str) -> str:
    """Something that should happen once."""
    print("built", version, flush=True)
    return version


@flow
def deploy(version: str = "v42") -> None:
    """Build, ask, go on. The flow starts from its beginning when it is resumed."""
    build(version)
    with open_desk() as desk:
        strategy = ask(desk, f"How shall {version} go out?", choices=["Canary", "Rolling"])
    print(f"{version} goes out as {strategy}", flush=True)


if __name__ == "__main__":
    deploy.serve("deploys")
