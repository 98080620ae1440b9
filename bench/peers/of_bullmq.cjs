// BullMQ on Redis: two workers, and its own schedulers for what is periodic.

const { Queue, Worker } = require("bullmq");
const { verb, atOnce, count, url, call, jobs } = require("./calling.cjs");

const connection = { path: process.env.REDIS_URL.slice("unix://".length), maxRetriesPerRequest: null };

async function plant() {
  const queue = new Queue("get", { connection });
  const timestamp = Date.now(); // what the delay counts from
  const made = [...jobs()].map(([at, url]) => ({
    name: "get",
    data: { url },
    opts: { timestamp, delay: at - timestamp },
  }));
  if (made.length) await queue.addBulk(made);
  await queue.close();
}

// Each second; when a job is due, its id says in milliseconds.
async function each() {
  const queue = new Queue("get", { connection });
  for (let n = 0; n < count; n++) {
    await queue.upsertJobScheduler(`${n}`, { pattern: "* * * * * *" }, { name: "each", data: { n } });
  }
}

const targetOf = ({ id, data }) => data.url ?? `${url}${id.split(":").pop()}000/${data.n}`;

if (verb === "plant") plant();
else {
  new Worker("get", (job) => call(targetOf(job)), { connection, concurrency: atOnce });
  if (verb === "every") each();
}
