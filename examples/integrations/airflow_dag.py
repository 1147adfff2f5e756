"""An Airflow DAG that asks. Put it into your folder of DAGs, start a run, and kill Airflow while it waits.

Run it with: airflow dags trigger deploys
It needs: pip install "handraise[airflow]", on the workers and on the triggerer, and HANDRAISE_URL there
"""

from airflow.sdk import DAG, task

from handraise.integrations.airflow import AskOperator


@task
def build() -> str:
    """Something that should happen once."""
    print("built v42")
    return "v42"


@task
def deploy(version: str, strategy: str) -> None:
    """What happens with the answer."""
    print(f"{version} goes out as {strategy}")


with DAG("deploys", schedule=None):
    version = build()
    strategy = AskOperator(
        task_id="ask",
        prompt="How shall {{ ti.xcom_pull('build') }} go out?",
        options={"choices": ["Canary", "Rolling"]},
    )
    version >> strategy
    deploy(version, strategy.output)
