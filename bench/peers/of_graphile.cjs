// graphile-worker on PostgreSQL, set up as its manual says for many short jobs: each of two workers
// fetches five hundred at a time, calls sixteen and completes them in batches. It deletes what is
// done.

const { Logger, makeWorkerUtils, run } = require("graphile-worker");
const { verb, call, jobs } = require("./calling.cjs");

const connectionString = process.env.PG_URL;
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
        concurrentJobs: 16,
        pollInterval: 100,
        localQueue: { size: 500 },
        completeJobBatchDelay: 0,
        failJobBatchDelay: 0,
      },
    },
    taskList: { get: ({ url }) => call(url).then(() => undefined) },
  });
}

verb === "plant" ? plant() : work();
