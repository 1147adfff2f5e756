#!/bin/sh
# A release bot: it asks whether a version may go out, and how, and does as it is told.
#
# Each question has a key with the version in it. Kill the bot while it waits and run it again: it finds its questions,
# and the answers that were given meanwhile. Only a yes is a yes: a no, a refusal and two hours of silence each end it
# with a code of their own.
#
# Run it with: sh examples/release_bot.sh VERSION
# Answer with: handraise inbox (in another terminal)
# It needs: pip install "handraise[cli]"
set -eu
version=${1:?say which version: release_bot.sh VERSION}

code=0
handraise ask "Release $version?" --confirm --as release-bot --expires-in 2h --key "release-$version" --wait >/dev/null || code=$?
case $code in
0) ;;
8) echo "$version stays here: somebody said no" && exit "$code" ;;
3) echo "$version stays here: nobody wants to decide it" && exit "$code" ;;
4) echo "$version stays here: nobody answered in two hours" && exit "$code" ;;
*) exit "$code" ;;
esac

strategy=$(handraise ask "How shall $version go out?" --choice Canary --choice Blue-green --choice Rolling \
    --as release-bot --key "strategy-$version" --wait)
echo "$version goes out as $strategy"
