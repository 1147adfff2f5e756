#!/bin/sh
# The deployment step of a CI job: it deploys a version only if a person approved exactly this, and once.
#
# The agent that started the job passes the receipt of the approval as RECEIPT. The step itself says what it is about to
# do, so an approval of another version, or for another place, does not help. If the server cannot be reached, nothing is
# deployed. The id of the job lets a step that was cut off run again.
#
# Run it with: RECEIPT=TOKEN HANDRAISE_URL=https://handraise.example sh examples/gate/deploy_step.sh VERSION ENVIRONMENT
# It needs: pip install "handraise[cli,gate]", and the public key: RECEIPT_PUBLIC_KEY=receipts.key.pub
set -eu
version=${1:?say which version: deploy_step.sh VERSION ENVIRONMENT}
environment=${2:?say where to: deploy_step.sh VERSION ENVIRONMENT}
case $version$environment in
*[!A-Za-z0-9._-]*) echo "a version and an environment have letters, digits, dots and dashes" >&2 && exit 2 ;;
esac

printf '%s' "${RECEIPT:?no receipt: ask for an approval first}" | handraise receipt use - \
    --key "${RECEIPT_PUBLIC_KEY:-receipts.key.pub}" --tool deploy \
    --arguments "{\"version\": \"$version\", \"environment\": \"$environment\"}" \
    --use-id "${CI_JOB_ID:-$(date +%s)-$$}"

echo "deploying $version to $environment"
