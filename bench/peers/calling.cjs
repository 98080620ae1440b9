// What the peers on Node.js share: what they are started for, how many calls a worker makes at once,
// and the call itself: by undici, on connections that are kept.

const { Pool } = require("undici");

const [verb = "worker", ...given] = process.argv.slice(2);
const atOnce = Number(process.env.AT_ONCE ?? 16);
const count = Number(given[0] ?? 0);
const url = given.at(-1);
const pools = new Map();

function poolOf(origin) {
  if (!pools.has(origin)) pools.set(origin, new Pool(origin, { connections: atOnce, pipelining: 1 }));
  return pools.get(origin);
}

async function call(target) {
  const { origin, pathname } = new URL(target);
  const answer = await poolOf(origin).request({ path: pathname, method: "GET" });
  await answer.body.text();
  return answer.statusCode;
}

// When each planted job is due, in microseconds, and what it calls.
function* jobs() {
  const [due, step] = [Number(given[1]), Number(given[2])];
  for (let number = 0; number < count; number++) {
    const at = due + number * step;
    yield [new Date(at / 1000), `${url}${at}/${number}`];
  }
}

module.exports = { verb, atOnce, count, url, call, jobs };
