/** Entry of an engine thread: takes messages in order (messages.ts), keeps the state, runs jobs, flushes and compactions. */
import { parentPort, threadId, workerData } from 'node:worker_threads'
import { SvcError } from 'svcdb/lib/errors'
import { collect, HeapTrimmer } from 'svcdb/lib/heap'
import { closing, Duck } from '../../duckdb/duckdb.ts'
import { ProcessPool } from '../../engine-process/pool.ts'
import { ProcessTurns } from '../../engine-process/turns.ts'
import type { RelationContext } from '../../read/relation.ts'
import type { PackedFilesOptions } from '../../read/samples/packed-files.ts'
import { SampleBlocks } from '../../read/samples/source-blocks.ts'
import { SegmentVerifier } from '../../segment/verify.ts'
import { TagDictionaries } from '../../series/tag-source.ts'
import { ThreadWarmUp } from '../../warm-up/thread-warm-up.ts'
import type { FromWorker, StateEvent, ToWorker, WorkerConfig, WorkerData } from '../messages.ts'
import { SnapshotPin } from '../snapshot-pins.ts'
import { WorkerState } from '../state.ts'
import { ThreadLife } from '../thread-life.ts'
import { threadUsage } from '../usage.ts'
import { FreedMemory } from './freed-memory.ts'
import { JobRunner, wireError } from './job-runner.ts'
import { KeptSamples } from './kept-samples.ts'
import { Maintenance } from './maintenance.ts'
import { stepBack } from './niceness.ts'

/** A job that does not hear that it is to stop is left so long after, unless it has a statement under way. */
const STOP_PATIENCE_MS = 5000

const { dataDir, shared, config, state: events, eventsPublished, trust, pins, life } = workerData as WorkerData
const port = parentPort
if (port === null) throw new Error('cannot start an engine thread: this module runs in a worker thread only')

// On Linux this is the thread alone, and those it starts from here on: DuckDB's. Ingest then keeps its processor while queries run.
if (process.platform === 'linux' && config.niceness > 0) stepBack(config.niceness)

const post = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
const state = new WorkerState(shared, config.regexTimeoutMs)
// Taken out: what they lead to, memtables' memory above all, would stay as long as the thread.
for (const event of events.splice(0)) state.apply(event)
state.applied = eventsPublished
const duck = new Duck(config, dataDir, life)
const verifier = new SegmentVerifier(trust, dataDir, post, undefined, (bytes) => post({ kind: 'prefetched', bytes }))
const sampleBlocks = new SampleBlocks(config.sampleCacheBytes, packedFiles(config))
const samples = new KeptSamples(sampleBlocks, post)
const refusedPlan = (namespace: string, reason: string): void => post({ kind: 'refused-plan', namespace, reason })
const { sqlLimits, sqlFunctions, maxScratchBytes } = config
const turns = new ProcessTurns(post)
const processes = new ProcessPool(config, turns)
const dictionaries = new TagDictionaries(state.series)
const context: RelationContext = {
  state,
  duck,
  dictionaries,
  dataDir,
  sampleBlocks,
  verifier,
  sqlLimits,
  sqlFunctions,
  maxScratchBytes,
  processes,
  refusedPlan,
}
const maintenance = new Maintenance(state, { duck, dataDir, config, now: Date.now }, verifier, post)
const jobs = new JobRunner(context, post, config.emitWindowBytes)
const heap = new HeapTrimmer()
const freed = config.givesBack ? new FreedMemory({ resident: () => process.memoryUsage.rss(), giveBack: () => duck.giveBack() }) : undefined
const warmUp = new ThreadWarmUp(
  context,
  config,
  () => jobs.active > 0,
  () => heap.trim(),
)

/** As much as statements may use on disk; threads that answer no questions have none. */
function packedFiles({ tempDir, maxScratchBytes }: WorkerConfig): PackedFilesOptions | undefined {
  if (maxScratchBytes === undefined) return undefined
  return { directory: tempDir, budget: maxScratchBytes, name: String(threadId) }
}

/** Has all that is under way stop, and waits until the thread may end: with a statement under way that would abort the process. */
async function atRest(stopped: SvcError): Promise<void> {
  Atomics.store(life, ThreadLife.ENDING, 1)
  freed?.stop()
  jobs.cancelAll(stopped)
  processes.close()
  duck.end(stopped)
  const until = performance.now() + STOP_PATIENCE_MS
  while (duck.isUsed || (jobs.active > 0 && performance.now() < until)) await new Promise((resolve) => setTimeout(resolve, 1))
  await duck.settled()
}

async function close(): Promise<void> {
  sampleBlocks.close()
  const resting = atRest(closing())
  await warmUp.end(true)
  await maintenance.settled()
  await resting
  duck.close()
  // The table function's callback would keep the thread alive.
  process.exit(0)
}

function applyEvents(events: readonly StateEvent[]): void {
  for (const event of events) {
    state.apply(event)
    if (event.kind === 'measurement-gone') {
      dictionaries.forget(event.id)
      sampleBlocks.newest.forget(event.id)
    } else if (event.kind === 'segments') {
      sampleBlocks.forget(event.removed, event.droppedMemtable, jobs.newest)
    } else if (event.kind === 'buffers-left') {
      setImmediate(collect)
      if (event.resting) freed?.soon()
    }
  }
  samples.report()
}

async function runJob(message: Extract<ToWorker, { kind: 'job' }>): Promise<void> {
  samples.asked()
  await jobs.start(message, new SnapshotPin(pins, message.slot))
  sampleBlocks.jobEnded(jobs.oldest)
  samples.report()
  if (jobs.active === 0) samples.idle()
}

async function runWarmUp(message: Extract<ToWorker, { kind: 'warm-up' }>): Promise<void> {
  post({ kind: 'warmed-up', id: message.id, outcome: await warmUp.run(message) })
}

async function reportUsage(id: number): Promise<void> {
  try {
    post({ kind: 'usage', id, usage: await threadUsage(duck) })
  } catch (error) {
    post({ kind: 'task-failed', id, error: wireError(error) })
  }
}

let failed = false

/** What was not caught ends the thread, once nothing of DuckDB is under way. */
process.on('uncaughtException', (error: Error) => {
  if (failed) return
  failed = true
  const end = (): void => {
    process.removeAllListeners('uncaughtException')
    setImmediate(() => {
      throw error
    })
  }
  if (!duck.isUsed) return end()
  void atRest(new SvcError('DATABASE_ERROR', `the engine thread ended: ${error.message}`, { cause: error })).then(end, end)
})

port.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'state':
      return applyEvents(message.events)
    case 'job':
      return void runJob(message)
    case 'cancel':
      return jobs.cancel(message.id)
    case 'fetched':
      return jobs.fetched(message.request, message.error)
    case 'taken':
      return jobs.taken(message.id, message.bytes)
    case 'process-granted':
      return turns.granted(message.turn)
    case 'flush':
      return maintenance.flush(message)
    case 'compact':
      return maintenance.compact(message)
    case 'archive-days':
      return maintenance.listDays(message)
    case 'archive':
      return maintenance.archive(message)
    case 'newest-rows':
      return maintenance.raiseNewest(message)
    case 'warm-up':
      return void runWarmUp(message)
    case 'warm-up-end':
      return void warmUp.end()
    case 'usage':
      return void reportUsage(message.id)
    case 'are-you-there':
      return post({ kind: 'there' })
    case 'close':
      return void close()
  }
})
post({ kind: 'ready' })
