/**
 * What so many series take, computed from what a row, a series and a question were measured to cost, and from a simulation of flushes and merges by the rules of
 * the engine itself:
 *
 *   npm run sizing -- [--series 1e6,1e7,1e8] [--interval 10] [--days 30] [--cores 8] [--memory 32]
 *
 * series: active ones, each a sample every `interval` seconds, kept `days` days. cores and memory (GiB) are those of one machine.
 */
import { parseArgs } from 'node:util'
import { planMerge } from '../storage/embedded/compaction/plan.ts'
import type { SegmentMeta } from '../storage/embedded/threads/segment-entry.ts'

/** Measured; by which command is in docs/guides/sizing.md. Processor in microseconds of one core, sizes in bytes. */
export const COSTS = {
  /** A sample of a series that is known, flushes and merges included; of it in the main thread, of which a node has one. */
  sampleMicros: 0.75,
  sampleMainMicros: 0.3,
  /** The first sample of a series. */
  newSeriesMicros: 6.6,
  /** Of a sample in a segment: gauges of integers. Decimals take twice as much. */
  sampleBytes: 0.63,
  /** Of a sample in the log and in the memtable. */
  logBytes: 5.5,
  memtableBytes: 22,
  /** Of a sample of remote write 1.0 with four labels, by snappy. */
  wireBytes: 11,
  seriesBytes: 410,
  /** Resident memory of a full node beside its series, while it takes writes and answers questions. */
  baseBytes: 450 * 2 ** 20,
  /** A start after a kill, and what each series adds. */
  startSecs: 0.6,
  startMicrosPerSeries: 0.7,
  /** A sample that a question reads, in processor time of all cores. */
  questionNanos: 15,
} as const

/** The same with the engine `clickhouse`; on one server, without replicas. */
const CLICKHOUSE_COSTS = {
  /** A sample of a series that is known: in the node before ClickHouse, and in ClickHouse, merges included. */
  nodeMicros: 5.5,
  sampleMicros: 3.1,
  newSeriesNodeMicros: 40,
  newSeriesMicros: 91,
  /** Of a sample and of a series on ClickHouse's disk. */
  sampleBytes: 2.7,
  diskBytesPerSeries: 24,
  /** Memory of a node for a series that it has written. */
  seriesBytes: 2100,
  nodeBaseBytes: 250 * 2 ** 20,
  /** A sample that a sum of rates reads, in ClickHouse's processor time. */
  questionNanos: 500,
} as const

const FLUSH_BYTES = 64 * 2 ** 20
const LIMITS = { fanIn: 4, maxRows: 32_000_000 }
/** Of a core or of memory that is planned for: the rest is for questions, bursts and restarts. */
const PLANNED = 0.5
const DAY = 86_400
const GIB = 2 ** 30

export interface Demand {
  series: number
  intervalSecs: number
  days: number
}

export interface Machine {
  cores: number
  memoryBytes: number
}

export interface Merging {
  /** Segments in the end, and at most. */
  segments: number
  most: number
  /** How often a row was written again by a merge. */
  rewrites: number
}

/** Flushes of so many rows one after the other, and all merges that are due after each. @param rows in all. */
export function simulateMerges(rows: number, rowsPerFlush: number): Merging {
  let segments: SegmentMeta[] = []
  let rewritten = 0
  let most = 0
  let id = 1
  for (let written = 0; written < rows; written += rowsPerFlush) {
    segments.push(segmentOf(id++, rowsPerFlush, written, 0))
    for (let merge = planMerge(segments, LIMITS, true); merge !== undefined; merge = planMerge(segments, LIMITS, true)) {
      const at = segments.indexOf(merge.segments[0])
      const count = merge.segments.reduce((sum, one) => sum + one.rows, 0)
      rewritten += count
      segments = [
        ...segments.slice(0, at),
        segmentOf(id++, count, Number(merge.segments[0].minTime), merge.level),
        ...segments.slice(at + merge.segments.length),
      ]
    }
    most = Math.max(most, segments.length)
  }
  return { segments: segments.length, most, rewrites: rewritten / rows }
}

function segmentOf(id: number, rows: number, from: number, level: number): SegmentMeta {
  const times = { minTime: String(from), maxTime: String(from + rows - 1) }
  return { id, table: 0, sequence: id, level, file: `${id}`, rows, bytes: rows, ...times, dirty: null, minSeries: 0, maxSeries: 0, columns: [] }
}

export interface Size {
  samplesPerSec: number
  /** Of ingest and merges, in cores. */
  cores: number
  /** Part of the one main thread. */
  mainThread: number
  memoryBytes: number
  diskBytesPerDay: number
  diskBytes: number
  diskWriteBytesPerSec: number
  networkBytesPerSec: number
  startSecs: number
  /** Until a node that knows none of its series has taken the first sample of each. */
  firstSecs: number
  /** A sum over all series of the last hour. */
  wholeHourSecs: number
  flushesPerHour: number
  merging: Merging
  /** Embedded nodes, and what decides their number. */
  nodes: number
  limit: 'main thread' | 'processor' | 'memory'
}

export function sizeOf({ series, intervalSecs, days }: Demand, machine: Machine): Size {
  const samplesPerSec = series / intervalSecs
  const rowsPerFlush = Math.floor(FLUSH_BYTES / COSTS.memtableBytes)
  const merging = simulateMerges(Math.min(samplesPerSec * DAY, rowsPerFlush * 2000), rowsPerFlush)
  const cores = (samplesPerSec * COSTS.sampleMicros) / 1e6
  const mainThread = (samplesPerSec * COSTS.sampleMainMicros) / 1e6
  const seriesBytes = series * COSTS.seriesBytes
  const needs = {
    'main thread': mainThread / PLANNED,
    processor: cores / (machine.cores * PLANNED),
    memory: seriesBytes / Math.max(1, machine.memoryBytes * PLANNED - COSTS.baseBytes),
  }
  const [limit, need] = Object.entries(needs).reduce((most, one) => (one[1] > most[1] ? one : most)) as [Size['limit'], number]
  const nodes = Math.max(1, Math.ceil(need))
  const diskBytesPerDay = samplesPerSec * DAY * COSTS.sampleBytes
  return {
    samplesPerSec,
    cores,
    mainThread,
    memoryBytes: seriesBytes + nodes * COSTS.baseBytes,
    diskBytesPerDay,
    diskBytes: diskBytesPerDay * days,
    diskWriteBytesPerSec: samplesPerSec * (COSTS.logBytes + COSTS.sampleBytes * (1 + merging.rewrites)),
    networkBytesPerSec: samplesPerSec * COSTS.wireBytes,
    firstSecs: ((series / nodes) * COSTS.newSeriesMicros) / 1e6,
    startSecs: COSTS.startSecs + (series / nodes) * COSTS.startMicrosPerSeries * 1e-6,
    wholeHourSecs: (samplesPerSec * 3600 * COSTS.questionNanos) / 1e9,
    flushesPerHour: (samplesPerSec * 3600) / rowsPerFlush,
    merging,
    nodes,
    limit,
  }
}

export interface ClickHouseSize {
  samplesPerSec: number
  /** Of ingest, in cores: in the nodes in front, all in their main threads, and in ClickHouse. */
  nodeCores: number
  clickHouseCores: number
  /** Of all nodes in front, with a series on one of them. */
  nodeMemoryBytes: number
  diskBytesPerDay: number
  diskBytes: number
  firstSecs: number
  wholeHourSecs: number
  nodes: number
  /** ClickHouse's shards, each of one replica. */
  shards: number
}

export function clickHouseSizeOf({ series, intervalSecs, days }: Demand, machine: Machine): ClickHouseSize {
  const costs = CLICKHOUSE_COSTS
  const samplesPerSec = series / intervalSecs
  const nodeCores = (samplesPerSec * costs.nodeMicros) / 1e6
  const clickHouseCores = (samplesPerSec * costs.sampleMicros) / 1e6
  const nodes = Math.max(1, Math.ceil(Math.max(nodeCores / PLANNED, (series * costs.seriesBytes) / (machine.memoryBytes * PLANNED - costs.nodeBaseBytes))))
  const diskBytesPerDay = samplesPerSec * DAY * costs.sampleBytes
  return {
    samplesPerSec,
    nodeCores,
    clickHouseCores,
    nodeMemoryBytes: series * costs.seriesBytes + nodes * costs.nodeBaseBytes,
    diskBytesPerDay,
    diskBytes: diskBytesPerDay * days + series * costs.diskBytesPerSeries,
    firstSecs: (series * (costs.newSeriesNodeMicros + costs.newSeriesMicros)) / 1e6,
    wholeHourSecs: (samplesPerSec * 3600 * costs.questionNanos) / 1e9,
    nodes,
    shards: Math.max(1, Math.ceil(clickHouseCores / (machine.cores * PLANNED))),
  }
}

/** A Markdown table, a column for each count of series. */
export function sheet(demands: readonly Demand[], machine: Machine): string {
  const sizes = demands.map((demand) => sizeOf(demand, machine))
  return table<Size>(demands, sizes, [
    ['samples/s', ({ samplesPerSec }) => Math.round(samplesPerSec).toLocaleString('en-US')],
    ['cores busy with ingest and merges', ({ cores }) => round(cores)],
    ['of it main threads', ({ mainThread }) => round(mainThread)],
    ['memory', ({ memoryBytes }) => `${round(memoryBytes / GIB)} GiB`],
    ['disk a day', ({ diskBytesPerDay }) => bytes(diskBytesPerDay)],
    [`disk, ${demands[0].days} days`, ({ diskBytes }) => bytes(diskBytes)],
    ['written to disk', ({ diskWriteBytesPerSec }) => `${bytes(diskWriteBytesPerSec)}/s`],
    ['network in', ({ networkBytesPerSec }) => `${bytes(networkBytesPerSec)}/s`],
    ['flushes an hour', ({ flushesPerHour }) => round(flushesPerHour)],
    ['each row merged, times', ({ merging }) => round(merging.rewrites)],
    ['start after a kill, each node', ({ startSecs }) => `${round(startSecs)} s`],
    ['the first sample of all series, each node', ({ firstSecs }) => `${round(firstSecs)} core seconds`],
    ['a sum over all series of an hour', ({ wholeHourSecs }) => `${round(wholeHourSecs)} core seconds`],
    [`nodes of ${machine.cores} cores and ${round(machine.memoryBytes / GIB)} GiB, half used`, ({ nodes }) => `${nodes}`],
    ['because of', ({ limit }) => limit],
  ])
}

/** The same for nodes in front of ClickHouse. */
export function clickHouseSheet(demands: readonly Demand[], machine: Machine): string {
  const sizes = demands.map((demand) => clickHouseSizeOf(demand, machine))
  return table<ClickHouseSize>(demands, sizes, [
    ['samples/s', ({ samplesPerSec }) => Math.round(samplesPerSec).toLocaleString('en-US')],
    ['cores of svc busy with ingest', ({ nodeCores }) => round(nodeCores)],
    ['cores of ClickHouse busy with inserts and merges', ({ clickHouseCores }) => round(clickHouseCores)],
    ['memory of svc', ({ nodeMemoryBytes }) => `${round(nodeMemoryBytes / GIB)} GiB`],
    ['disk a day, each replica', ({ diskBytesPerDay }) => bytes(diskBytesPerDay)],
    [`disk, ${demands[0].days} days, each replica`, ({ diskBytes }) => bytes(diskBytes)],
    ['the first sample of all series', ({ firstSecs }) => `${round(firstSecs)} core seconds`],
    ['a sum of rates over all series of an hour', ({ wholeHourSecs }) => `${round(wholeHourSecs)} core seconds`],
    ['nodes of svc, their main threads half used', ({ nodes }) => `${nodes}`],
    [`shards of ${machine.cores} cores, half used, each with as many replicas as you want copies`, ({ shards }) => `${shards}`],
  ])
}

function table<T>(demands: readonly Demand[], sizes: readonly T[], rows: readonly (readonly [string, (size: T) => string])[]): string {
  const head = `| | ${demands.map(({ series }) => `${(series / 1e6).toLocaleString('en-US')} M series`).join(' | ')} |`
  const lines = rows.map(([name, show]) => `| ${name} | ${sizes.map(show).join(' | ')} |`)
  return [head, `|---|${demands.map(() => '---|').join('')}`, ...lines].join('\n')
}

function round(value: number): string {
  return value >= 100 ? Math.round(value).toLocaleString('en-US') : value >= 10 ? value.toFixed(0) : value.toFixed(value >= 1 ? 1 : 2)
}

function bytes(value: number): string {
  return value >= 1e12 ? `${round(value / 1e12)} TB` : value >= 1e9 ? `${round(value / 1e9)} GB` : `${round(value / 1e6)} MB`
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      series: { type: 'string', default: '1e6,1e7,1e8' },
      interval: { type: 'string', default: '10' },
      days: { type: 'string', default: '30' },
      cores: { type: 'string', default: '8' },
      memory: { type: 'string', default: '32' },
    },
  })
  const numbers = (name: keyof typeof values): number[] =>
    values[name].split(',').map((text) => {
      const number = Number(text)
      if (!(number > 0 && number <= 1e12)) {
        process.stderr.write(`cannot read --${name} "${text}": give a number above 0\n`)
        process.exit(2)
      }
      return number
    })
  const [intervalSecs] = numbers('interval')
  const [days] = numbers('days')
  const demands = numbers('series').map((series) => ({ series, intervalSecs, days }))
  const machine = { cores: numbers('cores')[0], memoryBytes: numbers('memory')[0] * GIB }
  process.stdout.write(`${sheet(demands, machine)}\n\nIn front of ClickHouse:\n\n${clickHouseSheet(demands, machine)}\n`)
}
