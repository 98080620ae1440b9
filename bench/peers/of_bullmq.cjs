// BullMQ on Redis: sixteen jobs at a time in each of two workers, and its own schedulers for what is
// periodic.

const { Queue, Worker } = require("bullmq");
const { verb, count, url, call, jobs } = require("./calling.cjs");

const connection = { path: process.env.REDIS_URL.slice("unix://".length), maxRetriesPerRequest: null };

async function plant() {
  const queue = new Queue("get", { connection });
  const now = Date.now();
  const made = [...jobs()].map(([at, url]) => ({ name: "get", data: { url }, opts: { delay: at - now } }));
  if (made.length) await queue.addBulk(made);
  await queue.close();
}

// Each second; when a job is due, its id says in milliseconds.
async function each() {
  const queue = new Queue("get", { connection });
  for (let n = 0; n < count; n++) {
    await queue.upsertJobScheduler(`${n}`, { every: 1000 }, { name: "each", data: { n } });
  }
}

const targetOf = ({ id, data }) => data.url ?? `${url}${id.split(":").pop()}000/${data.n}`;

if (verb === "plant") plant();
else {
  new Worker("get", (job) => call(targetOf(job)), { connection, concurrency: 16 });
  if (verb === "every") each();
}
