/** Entry of an engine thread: takes messages in order (messages.ts), keeps the state, runs jobs, flushes and compactions. */
import { getHeapStatistics } from 'node:v8'
import { parentPort, threadId, workerData } from 'node:worker_threads'
import { SvcError } from 'svcdb/lib/errors'
import { collect, HeapTrimmer } from 'svcdb/lib/heap'
import { archiveDay, daysBefore } from '../../archive/archive-writer.ts'
import { compactSegments } from '../../compaction/compactor.ts'
import { Duck } from '../../duckdb/duckdb.ts'
import { mergedKeys } from '../../encryption/encrypted-write.ts'
import { ProcessPool } from '../../engine-process/pool.ts'
import { ProcessTurns } from '../../engine-process/turns.ts'
import type { RelationContext } from '../../read/relation.ts'
import type { PackedFilesOptions } from '../../read/samples/packed-files.ts'
import { SampleBlocks } from '../../read/samples/source-blocks.ts'
import { raiseToNewest } from '../../retention/newest-rows.ts'
import { flushMemtable, type SegmentTarget } from '../../segment/segment-writer.ts'
import { SegmentVerifier } from '../../segment/verify.ts'
import { TagDictionaries } from '../../series/tag-source.ts'
import { ThreadWarmUp } from '../../warm-up/thread-warm-up.ts'
import type { FromWorker, ToWorker, WorkerConfig, WorkerData } from '../messages.ts'
import type { SegmentMeta } from '../segment-entry.ts'
import { SnapshotPin } from '../snapshot-pins.ts'
import { WorkerState } from '../state.ts'
import { threadUsage } from '../usage.ts'
import { FreedMemory } from './freed-memory.ts'
import { JobRunner, wireError } from './job-runner.ts'
import { stepBack } from './niceness.ts'

/** Of scratch space, for packed samples. */
const PACKED_SHARE = 1 / 2
/** How often samples are looked at that nobody asks for. */
const REST_MS = 10_000
/** Less is not worth a collection. */
const COLLECTED_BYTES = 32 << 20
/** Garbage of questions that is worth one: 20 ms. */
const LEFT_BYTES = 24 << 20
const RESTING_MS = 30

const { dataDir, shared, config, state: events, eventsPublished, trust, pins } = workerData as WorkerData
const port = parentPort
if (port === null) throw new Error('cannot start an engine thread: this module runs in a worker thread only')

// On Linux this is the thread alone, and those it starts from here on: DuckDB's. Ingest then keeps its processor while queries run.
if (process.platform === 'linux' && config.niceness > 0) stepBack(config.niceness)

const post = (message: FromWorker, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer)
const state = new WorkerState(shared, config.regexTimeoutMs)
// Taken out: what they lead to, memtables' memory above all, would stay as long as the thread.
for (const event of events.splice(0)) state.apply(event)
state.applied = eventsPublished
const duck = new Duck(config, dataDir)
const verifier = new SegmentVerifier(trust, dataDir, post, undefined, (bytes) => post({ kind: 'prefetched', bytes }))
const sampleBlocks = new SampleBlocks(config.sampleCacheBytes, packedFiles(config))
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
const target: SegmentTarget = { duck, dataDir, config, now: Date.now }
const jobs = new JobRunner(context, post, config.emitWindowBytes)
const heap = new HeapTrimmer()
const freed = config.givesBack ? new FreedMemory({ resident: () => process.memoryUsage.rss(), giveBack: () => duck.giveBack() }) : undefined
const warmUp = new ThreadWarmUp(
  context,
  config,
  () => jobs.active > 0,
  () => heap.trim(),
)
/** Flushes run one after the other, and so do compactions; a flush does not wait for a compaction, or ingest would have to wait as well. */
const chains = { flush: Promise.resolve(), compact: Promise.resolve() }

/** A part of what statements may use on disk; threads that answer no questions have none. */
function packedFiles({ tempDir, maxScratchBytes }: WorkerConfig): PackedFilesOptions | undefined {
  if (maxScratchBytes === undefined) return undefined
  return { directory: tempDir, budget: Math.floor(maxScratchBytes * PACKED_SHARE), name: String(threadId) }
}

/** Buffers beside the samples that are kept, of which more than a few MiB are garbage. */
const othersBytes = (): number => getHeapStatistics().external_memory - sampleBlocks.bytes
let leastOthers = Number.POSITIVE_INFINITY

let resting: NodeJS.Timeout | undefined

/** Collects what questions have left once none is asked for a moment: V8 lets 64 MiB of buffers come first, and what they take of the allocator is seldom given back. */
function collectLeft(): void {
  leastOthers = Math.min(leastOthers, othersBytes())
  if (othersBytes() - leastOthers < LEFT_BYTES) return
  collect()
  leastOthers = othersBytes()
}

/** Bytes of samples that were let go since the last collection for them. */
let letGo = 0

/** Lets samples go that nobody asks for any more. */
function restSamples(): void {
  letGo += sampleBlocks.rest()
  reportSamples()
  // V8 counts what it allocates: without questions it would have no reason to collect.
  if (letGo < COLLECTED_BYTES) return
  letGo = 0
  collect()
}

let samplesKept = { bytes: 0, fileBytes: 0 }
let unreadPages = 0

/** Reports how much the sample blocks take, and segments they could not be read from, when that has changed. */
function reportSamples(): void {
  const { bytes, fileBytes } = sampleBlocks
  if (bytes !== samplesKept.bytes || fileBytes !== samplesKept.fileBytes) post({ kind: 'samples-kept', ...(samplesKept = { bytes, fileBytes }) })
  const { refusedSegments } = sampleBlocks
  if (refusedSegments !== unreadPages) post({ kind: 'unread-pages', segments: refusedSegments - unreadPages })
  unreadPages = refusedSegments
}

function maintain(chain: keyof typeof chains, id: number, work: () => Promise<FromWorker>): void {
  chains[chain] = chains[chain].then(work).then(post, (error) => post({ kind: 'failed', id, error: wireError(error) }))
}

async function close(): Promise<void> {
  freed?.stop()
  jobs.cancelAll()
  processes.close()
  sampleBlocks.close()
  await warmUp.end(true)
  await Promise.all(Object.values(chains))
  while (jobs.active > 0) await new Promise((resolve) => setTimeout(resolve, 1))
  await duck.settled()
  duck.close()
  // The table function's callback would keep the thread alive.
  process.exit(0)
}

/** The measurement of a table; undefined when it is shared. */
function ownerOf(table: number): number | undefined {
  const owner = state.tables.get(table)?.measurement ?? 0
  return owner < 0 ? undefined : owner
}

function compactionInputs(message: { table: number; segments: number[] }): SegmentMeta[] {
  const known = new Map((state.segments.get(message.table) ?? []).map((segment) => [segment.id, segment]))
  return message.segments.map((id) => {
    const segment = known.get(id)
    if (segment === undefined) throw new SvcError('INTERNAL_ERROR', `cannot compact segment ${id} of table ${message.table}: it is not in the manifest`)
    return segment
  })
}

port.on('message', (message: ToWorker) => {
  switch (message.kind) {
    case 'state':
      for (const event of message.events) {
        state.apply(event)
        if (event.kind === 'measurement-gone') context.dictionaries.forget(event.id)
        if (event.kind === 'measurement-gone') sampleBlocks.newest.forget(event.id)
        if (event.kind === 'segments') sampleBlocks.forget(event.removed, event.droppedMemtable, jobs.newest)
        if (event.kind === 'buffers-left') setImmediate(collect)
        if (event.kind === 'buffers-left' && event.resting) freed?.soon()
      }
      reportSamples()
      break
    case 'job':
      clearTimeout(resting)
      void jobs.start(message, new SnapshotPin(pins, message.slot)).then(() => {
        sampleBlocks.jobEnded(jobs.oldest)
        reportSamples()
        if (jobs.active > 0) return
        clearTimeout(resting)
        resting = setTimeout(collectLeft, RESTING_MS).unref()
      })
      break
    case 'cancel':
      jobs.cancel(message.id)
      break
    case 'fetched':
      jobs.fetched(message.request, message.error)
      break
    case 'taken':
      jobs.taken(message.id, message.bytes)
      break
    case 'process-granted':
      turns.granted(message.turn)
      break
    case 'flush':
      maintain('flush', message.id, async () => ({
        kind: 'flushed',
        id: message.id,
        segments: await flushMemtable(state, state.memtable(message.memtable), message.firstSegment, target),
      }))
      break
    case 'compact':
      maintain('compact', message.id, async () => {
        const measurement = ownerOf(message.table)
        const inputs = compactionInputs(message)
        await verifier.ensure(inputs)
        const keyOf = mergedKeys(inputs, state.tables.get(message.table), duck.encrypted.keys)
        return { kind: 'compacted', id: message.id, segment: await compactSegments(inputs, message, measurement, state, target, keyOf, state.measurements) }
      })
      break
    case 'archive-days':
      maintain('compact', message.id, async () => {
        const inputs = compactionInputs(message)
        await verifier.ensure(inputs)
        return { kind: 'archive-days', id: message.id, days: await daysBefore(inputs, BigInt(message.before), ownerOf(message.table), state, target) }
      })
      break
    case 'archive':
      maintain('compact', message.id, async () => {
        const inputs = compactionInputs(message)
        await verifier.ensure(inputs)
        return { kind: 'archived', id: message.id, segment: await archiveDay(inputs, message, ownerOf(message.table), state, target) }
      })
      break
    case 'newest-rows':
      maintain('compact', message.id, async () => {
        const [segment] = compactionInputs({ table: message.table, segments: [message.segment] })
        await raiseToNewest(segment, message, target)
        return { kind: 'newest-rows', id: message.id }
      })
      break
    case 'warm-up': {
      const { id } = message
      void warmUp.run(message).then((outcome) => post({ kind: 'warmed-up', id, outcome }))
      break
    }
    case 'warm-up-end':
      void warmUp.end()
      break
    case 'usage': {
      const { id } = message
      threadUsage(duck).then(
        (usage) => post({ kind: 'usage', id, usage }),
        (error) => post({ kind: 'failed', id, error: wireError(error) }),
      )
      break
    }
    case 'close':
      void close()
      break
  }
})
setInterval(restSamples, REST_MS).unref()
post({ kind: 'ready' })
