/**
 * Entry of an engine process: DuckDB and the functions of the SQL layer, nothing else of the node. It runs one statement at a time over rows that it was
 * handed, can open no file but those in its scratch directory, and has no secret: it may be killed at any moment, and nothing but the statement is lost.
 */
import { writeFileSync } from 'node:fs'
import { Worker } from 'node:worker_threads'
import { classify, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { ProcessDatabase } from './database.ts'
import type { FromProcess, ProcessSettings, ToProcess } from './messages.ts'
import type { WatchData } from './watch.ts'

const settings = JSON.parse(process.argv[2]) as ProcessSettings
const parent = process.ppid
const busy = new Int32Array(new SharedArrayBuffer(4))

/** V8 reserves half a gigabyte for the code of a thread, which counts as data, if it is not asked for less. */
const WATCH_LIMITS = { codeRangeSizeMb: 8, maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 2, stackSizeMb: 1 }

/** An exit would wait for DuckDB's threads. */
const end = (): void => void process.kill(process.pid, 'SIGKILL')
process.on('disconnect', end)
// Where memory is short, this goes first, and not the node.
try {
  if (process.platform === 'linux') writeFileSync('/proc/self/oom_score_adj', '1000')
} catch {
  // Some containers do not allow it.
}

const send = (message: FromProcess): void => void process.send?.(message)
const database = await ProcessDatabase.create(settings, send)
const watchData: WatchData = { limitBytes: process.memoryUsage.rss() + settings.growthBytes, busy, parent }
const watch = new Worker(moduleUrl('./watch.ts', import.meta.url), { workerData: watchData, resourceLimits: WATCH_LIMITS })
watch.on('error', end)

let work = Promise.resolve()
let statement = 0

process.on('message', (message: ToProcess) => {
  if (message.kind === 'taken') return database.taken(message.bytes)
  if (message.kind === 'open') {
    statement = message.id
    Atomics.store(busy, 0, 1)
    Atomics.notify(busy, 0)
  }
  const id = statement
  work = work.then(() => handle(message)).catch((error: unknown) => send(failure(id, error)))
})

async function handle(message: Exclude<ToProcess, { kind: 'taken' }>): Promise<void> {
  switch (message.kind) {
    case 'open':
      return database.open(message)
    case 'file':
      return database.file(message.view, message.path)
    case 'rows':
      return database.rows(message.view, message.chunk)
    case 'run':
      return database.run()
    case 'plans':
      return database.plans(message.sql, message.analyze)
    case 'close':
      await database.close()
      Atomics.store(busy, 0, 0)
  }
}

function failure(id: number, error: unknown): FromProcess {
  if (error instanceof SvcError) return { kind: 'failed', id, message: error.message, code: error.code }
  if (error instanceof RangeError || (error as NodeJS.ErrnoException).code === 'ERR_STRING_TOO_LONG')
    return { kind: 'failed', id, message: 'cannot run this query: a value of its result is too large to be answered', code: 'SQL_ERROR' }
  return { kind: 'failed', id, message: error instanceof Error ? error.message : classify(error).message }
}

send({ kind: 'ready' })
