// graphile-worker on PostgreSQL, which deletes what is done. Two workers, set up as its manual says
// for many short jobs: each fetches so many IN_A_ROW and completes them in batches. If that is one,
// it looks for each job by itself, which is sooner begun.

const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { verb, atOnce, call, jobs } = require("./calling.cjs");

const connectionString = process.env.PG_URL;
const inARow = Number(process.env.IN_A_ROW ?? 500);
const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});

async function plant() {
  const utils = await makeWorkerUtils({ connectionString, logger });
  await utils.migrate();
  const made = [...jobs()].map(([runAt, url]) => ({ identifier: "get", payload: { url }, runAt }));
  if (made.length) await utils.addJobs(made);
  await utils.release();
}

async function work() {
  await run({
    preset: {
      worker: {
        connectionString,
        logger,
        concurrentJobs: atOnce,
        pollInterval: 100,
        ...(inARow > 1 && {
          localQueue: { size: inARow },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        }),
      },
    },
    taskList: { get: ({ url }) => call(url).then(() => undefined) },
  });
}

verb === "plant" ? plant() : work();
