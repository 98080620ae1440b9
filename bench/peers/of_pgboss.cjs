// pg-boss on PostgreSQL: each of two workers fetches up to 2,500 jobs as often as it may,
// calls sixteen at a time and completes them together. It keeps the rows.

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
