// pg-boss on PostgreSQL, which keeps the rows. Each of two workers fetches as often as it may, twice
// a second, and then half of what a burst has; it completes together what it fetched together.

const PgBoss = require("pg-boss");
const { verb, call, jobs } = require("./calling.cjs");

async function main() {
  const boss = new PgBoss({ connectionString: process.env.PG_URL, schedule: false });
  boss.on("error", console.error);
  await boss.start();
  if (verb === "plant") {
    await boss.createQueue("get");
    const made = [...jobs()].map(([startAfter, url]) => ({ name: "get", data: { url }, startAfter }));
    for (let n = 0; n < made.length; n += 1000) await boss.insert(made.slice(n, n + 1000));
    return boss.stop({ graceful: false });
  }
  const options = { batchSize: 2500, pollingIntervalSeconds: 0.5 };
  return boss.work("get", options, (batch) => Promise.all(batch.map(({ data }) => call(data.url))));
}

main();
