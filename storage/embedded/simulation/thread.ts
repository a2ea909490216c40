/**
 * A simulated engine thread: takes the messages of ../threads/messages.ts in order and answers them later, keeps the real threads' picture of the database
 * (../threads/state.ts), writes segments through the real segment-file.ts. It may be slow, fail a task, or die.
 */
import { crc32 } from 'node:zlib'
import { floorDiv } from '../../common/time.ts'
import { DAY_NS } from '../archive/object-key.ts'
import { type CompactRequest, firstLeft, mergeSources, unionFields } from '../compaction/compactor.ts'
import type { EngineWorker } from '../environment.ts'
import { fileCrc } from '../integrity/file-crc.ts'
import { orderRows } from '../memtable/row-order.ts'
import type { Interval } from '../read/sources.ts'
import { raise } from '../retention/newest-times.ts'
import { removeSegmentFiles, segmentPath, writeSegmentFile } from '../segment/segment-file.ts'
import { countByMeasurement, haveNames, ownersOf } from '../segment/segment-owners.ts'
import type { Selection, SelectionRequest } from '../series/selection.ts'
import { selectionOf } from '../series/selection.ts'
import type { TableDef } from '../threads/definitions.ts'
import type { ArchiveTask, FromWorker, ToWorker, WorkerData } from '../threads/messages.ts'
import type { SegmentColumn, SegmentMeta } from '../threads/segment-entry.ts'
import { SnapshotPin } from '../threads/snapshot-pins.ts'
import { type MemtableState, takePart, WorkerState } from '../threads/state.ts'
import { wireError } from '../threads/worker/job-runner.ts'
import { SystemError } from './disk.ts'
import { SimulatedFiles } from './file-system.ts'
import type { Machine } from './machine.ts'
import { decodeRows, encodeRows, orderedRows, type Row, sorted, united, visible } from './rows.ts'
import { scanAll } from './scan.ts'

const ALL_TIME: Interval = [-(2n ** 63n), 2n ** 63n - 1n]

type Listener = (value: never) => void

export class SimulatedThread implements EngineWorker {
  readonly state: WorkerState
  private readonly data: WorkerData
  private readonly machine: Machine
  private readonly fs: SimulatedFiles
  private readonly listeners = new Map<string, Listener[]>()
  private alive = true
  /** When the newest message in each direction arrives: they keep their order. */
  private inbound = 0
  private outbound = 0
  private readonly chains = { flush: Promise.resolve(), compact: Promise.resolve() }
  private readonly fetches = new Map<number, (error: unknown) => void>()
  private readonly jobs = new Map<number, SnapshotPin>()
  private waiting: (() => void)[] = []
  private nextFetch = 0

  constructor(data: WorkerData, machine: Machine) {
    this.data = data
    this.machine = machine
    this.fs = new SimulatedFiles(machine)
    this.state = new WorkerState(data.shared)
    for (const event of data.state) this.state.apply(event)
    this.state.applied = data.eventsPublished
  }

  on(event: string, listener: Listener): void {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener])
  }

  once(event: string, listener: Listener): void {
    this.on(event, listener)
  }

  postMessage(message: ToWorker): void {
    this.inbound = this.deliver(this.inbound, `to ${this.data.role}: ${message.kind}`, () => this.receive(message))
  }

  async terminate(): Promise<void> {
    this.exit(1)
  }

  private post(message: FromWorker): void {
    if (!this.alive) return
    this.outbound = this.deliver(this.outbound, `from ${this.data.role}: ${message.kind}`, () => this.emit('message', message))
  }

  private deliver(after: number, name: string, run: () => void): number {
    const { scheduler, random } = this.machine
    const at = Math.max(after, scheduler.now + (random.chance(0.95) ? random.next() * 0.3 : random.next() * 30))
    scheduler.at(at - scheduler.now, name, () => {
      if (this.alive && this.machine.alive) run()
    })
    return at
  }

  private emit(event: string, value: unknown): void {
    for (const listener of this.listeners.get(event) ?? []) listener(value as never)
  }

  private exit(code: number, error?: Error): void {
    if (!this.alive) return
    this.alive = false
    for (const id of [...this.jobs.keys()]) this.leave(id)
    this.fs.end()
    this.machine.scheduler.soon(`${this.data.role} thread ends`, () => {
      if (!this.machine.alive) return
      if (error !== undefined) this.emit('error', error)
      this.emit('exit', code)
    })
  }

  private receive(message: ToWorker): void {
    switch (message.kind) {
      case 'state':
        for (const event of message.events) this.state.apply(event)
        break
      case 'job':
        void this.job(message, new SnapshotPin(this.data.pins, message.slot))
        break
      case 'cancel':
        if (this.leave(message.id)) this.post({ kind: 'failed', id: message.id, error: { code: 'QUERY_TIMEOUT', message: 'the query was cancelled' } })
        break
      case 'fetched':
        this.fetches.get(message.request)?.(message.error)
        this.fetches.delete(message.request)
        break
      case 'flush':
        this.maintain('flush', message.id, async () => ({
          kind: 'flushed',
          id: message.id,
          segments: await this.flush(message.memtable, message.firstSegment),
        }))
        break
      case 'compact':
        this.maintain('compact', message.id, async () => ({ kind: 'compacted', id: message.id, segment: await this.compact(message) }))
        break
      case 'archive-days':
        this.maintain('compact', message.id, async () => ({ kind: 'archive-days', id: message.id, days: await this.days(message) }))
        break
      case 'archive':
        this.maintain('compact', message.id, async () => ({ kind: 'archived', id: message.id, segment: await this.archive(message) }))
        break
      case 'newest-rows':
        this.maintain('compact', message.id, async () => {
          const [segment] = this.inputs(message.table, [message.segment])
          for (const { series, time } of await this.read(segment)) raise(message, series, time)
          return { kind: 'newest-rows', id: message.id }
        })
        break
      case 'are-you-there':
        this.post({ kind: 'there' })
        break
      case 'close':
        void Promise.all(Object.values(this.chains)).then(() => this.exit(0))
        break
    }
    const { waiting } = this
    this.waiting = []
    for (const wake of waiting) wake()
  }

  private maintain(chain: 'flush' | 'compact', id: number, work: () => Promise<FromWorker>): void {
    this.chains[chain] = this.chains[chain]
      .then(async () => {
        if (!this.machine.strikes('thread')) return this.post(await work())
        if (this.machine.random.chance(0.5)) throw new SystemError(this.machine.random.pick(['ENOSPC', 'EIO', 'ENOMEM']), 'task')
        this.machine.grave++
        // In the midst of it, or before.
        this.machine.scheduler.soon('thread dies', () => this.exit(1, new Error('struck dead')))
        await work()
      })
      .catch((error) => this.post({ kind: 'task-failed', id, error: wireError(error) }))
  }

  private async job({ id, module, args }: Extract<ToWorker, { kind: 'job' }>, pin: SnapshotPin): Promise<void> {
    this.jobs.set(id, pin)
    try {
      for (;;) {
        const snapshot = this.state.snapshotNow(pin)
        if (snapshot === undefined) {
          await new Promise<void>((resolve) => this.waiting.push(resolve))
          continue
        }
        const result = module.endsWith('select-job.ts')
          ? this.select(args as SelectionRequest)
          : await scanAll(this.state, snapshot, args as { namespace: string }[], (segment) => this.read(segment, id))
        if (this.leave(id)) this.post({ kind: 'done', id, result })
        return
      }
    } catch (error) {
      if (this.leave(id)) this.post({ kind: 'failed', id, error: wireError(error) })
    }
  }

  /** @returns whether the job was under way. */
  private leave(id: number): boolean {
    this.jobs.get(id)?.release()
    return this.jobs.delete(id)
  }

  private select({ measurement, matchers }: SelectionRequest): Selection {
    return selectionOf(this.state.series, measurement, matchers)
  }

  /** @throws when the file is not what was written. */
  private async read(segment: SegmentMeta, job?: number): Promise<Row[]> {
    let path = `${this.data.dataDir}/${segment.file}`
    if (segment.archived) {
      if (job === undefined) throw new Error('an archived segment is never merged')
      const request = this.nextFetch++
      await new Promise<void>((resolve, reject) => {
        this.fetches.set(request, (error) => (error === undefined ? resolve() : reject(Object.assign(new Error(JSON.stringify(error)), error))))
        this.post({ kind: 'fetch', id: job, request, objects: [{ file: segment.file, bytes: segment.bytes, crc: segment.crc }] })
      })
      path = `${this.data.config.archiveDirectory}/${segment.file}`
    }
    const bytes = await this.fs.promises.readFile(path)
    if (bytes.length !== segment.bytes || crc32(bytes) !== segment.crc) {
      this.post({ kind: 'corrupt', segment: segment.id, cause: 'it is not what was written' })
      throw new Error(`segment ${segment.file} is not what was written`)
    }
    return decodeRows(bytes)
  }

  private async write(file: string, rows: readonly Row[]): Promise<{ bytes: number; crc: number }> {
    const bytes = await writeSegmentFile(this.data.dataDir, file, (path) => this.writePlain(path, rows), this.fs)
    return { bytes, crc: (await fileCrc(`${this.data.dataDir}/${file}`, undefined, this.fs)).crc }
  }

  private async writePlain(path: string, rows: readonly Row[]): Promise<void> {
    const handle = await this.fs.promises.open(path, 'w')
    try {
      await handle.writeFile(encodeRows(rows))
    } finally {
      await handle.close()
    }
  }

  private async flush(id: number, firstSegment: number): Promise<SegmentMeta[]> {
    const { state } = this
    const memtable = state.memtable(id)
    const written: SegmentMeta[] = []
    for (const tableId of [...memtable.tables.keys()].sort((a, b) => a - b)) {
      if (state.goneTables.has(tableId)) continue
      const table = state.tables.get(tableId)
      if (table === undefined) throw new Error(`cannot flush table ${tableId}: it was not announced to this thread`)
      try {
        const segment = await this.flushTable(memtable, table, firstSegment + written.length)
        if (segment !== undefined) written.push(segment)
      } catch (error) {
        await removeSegmentFiles(
          written.map(({ file }) => `${this.data.dataDir}/${file}`),
          this.fs,
        )
        throw error
      }
    }
    return written
  }

  private async flushTable(memtable: MemtableState, table: TableDef, id: number): Promise<SegmentMeta | undefined> {
    const { state } = this
    const part = takePart(memtable, memtable.tables.get(table.id)!)
    if (part.rows === 0) return undefined
    const measurementOf = table.measurement < 0 ? state.series.measurementArray : undefined
    const { rows, series } = orderedRows(part, measurementOf)
    const file = segmentPath(id, part.minTime)
    const counts = measurementOf === undefined ? [] : [...countByMeasurement(orderRows(part, {}, measurementOf), measurementOf)]
    return {
      id,
      table: table.id,
      sequence: memtable.sequence,
      level: 0,
      file,
      rows: rows.length,
      ...(await this.write(file, rows)),
      minTime: String(part.minTime),
      maxTime: String(part.maxTime),
      dirty: part.dirty === null ? null : [String(part.dirty[0]), String(part.dirty[1])],
      minSeries: Math.min(...series),
      maxSeries: Math.max(...series),
      ...(measurementOf !== undefined && haveNames(state.measurements) ? ownersOf(counts, state.measurements) : {}),
      columns: columnsOf(table, new Set(rows.flatMap(({ fields }) => [...fields.keys()]))),
    }
  }

  private ownerOf(table: number): number | undefined {
    const owner = this.state.tables.get(table)?.measurement ?? 0
    return owner < 0 ? undefined : owner
  }

  private inputs(table: number, ids: readonly number[]): SegmentMeta[] {
    const known = new Map((this.state.segments.get(table) ?? []).map((segment) => [segment.id, segment]))
    return ids.map((id) => {
      const segment = known.get(id)
      if (segment === undefined) throw new Error(`cannot compact segment ${id} of table ${table}: it is not in the manifest`)
      return segment
    })
  }

  /** What is left of segments after their deletes and retention, put together. */
  private async merged(
    table: number,
    inputs: readonly SegmentMeta[],
    request: Pick<CompactRequest, 'deduplicate' | 'cleared'>,
    time: Interval,
  ): Promise<{ rows: Row[]; sources: ReturnType<typeof mergeSources> }> {
    const measurement = this.ownerOf(table)
    const sources = mergeSources(inputs, request, measurement, this.state)
    const parts = []
    for (const source of sources) parts.push({ ...source, rows: visible(await this.read(source.segment!), source.masks) })
    const owners = new Map<number, number>()
    for (const { rows } of parts)
      for (const { series, measurement: owner } of rows) if (owner > (owners.get(series) ?? Number.NEGATIVE_INFINITY)) owners.set(series, owner)
    const rows = united(parts, time)
    for (const row of rows) row.measurement = owners.get(row.series) as number
    return { rows: sorted(rows), sources }
  }

  private async compact(request: CompactRequest): Promise<SegmentMeta | null> {
    const inputs = this.inputs(request.table, request.segments)
    const time: Interval = request.from === undefined ? ALL_TIME : [BigInt(request.from), ALL_TIME[1]]
    const { rows, sources } = await this.merged(request.table, inputs, request, time)
    if (rows.length === 0) return null
    const firsts = sources.map(firstLeft)
    const first = firsts.reduce((min, one) => (one < min ? one : min), firsts[0])
    const minTime = first < time[0] ? time[0] : first
    const maxTime = sources.reduce((max, source) => (source.maxTime > max ? source.maxTime : max), sources[0].maxTime)
    const file = segmentPath(request.segment, minTime)
    const { measurements } = this.state
    return {
      id: request.segment,
      table: request.table,
      sequence: request.sequence,
      level: request.level,
      cleared: request.cleared,
      file,
      rows: rows.length,
      ...(await this.write(file, rows)),
      minTime: String(minTime),
      maxTime: String(maxTime),
      dirty: request.dirty,
      minSeries: Math.min(...inputs.map((input) => input.minSeries)),
      maxSeries: Math.max(...inputs.map((input) => input.maxSeries)),
      ...(this.ownerOf(request.table) === undefined && haveNames(measurements) ? ownersOf(countRows(rows), measurements) : {}),
      columns: unionFields(inputs).map(({ id, column, type, scale }): SegmentColumn => ({ field: id, name: column, type, scale, encoding: { kind: 'plain' } })),
    }
  }

  private async days({ table, segments, before }: { table: number; segments: number[]; before: string }): Promise<string[]> {
    const cleared = Number.MAX_SAFE_INTEGER
    const { rows } = await this.merged(table, this.inputs(table, segments), { deduplicate: false, cleared }, [ALL_TIME[0], BigInt(before) - 1n])
    return [...new Set(rows.map(({ time }) => floorDiv(time, DAY_NS)))].sort((a, b) => (a < b ? -1 : 1)).map((day) => String(day * DAY_NS))
  }

  private async archive(task: ArchiveTask): Promise<SegmentMeta | null> {
    const inputs = this.inputs(task.table, task.segments)
    const { rows } = await this.merged(task.table, inputs, task, [BigInt(task.time[0]), BigInt(task.time[1])])
    if (rows.length === 0) return null
    try {
      await this.writePlain(task.path, rows)
      const { crc, bytes } = await fileCrc(task.path, undefined, this.fs)
      const times = rows.map(({ time }) => time).sort((a, b) => (a < b ? -1 : 1))
      const { table, segment: id, sequence, cleared, dirty } = task
      const [minSeries, maxSeries] = [Math.min(...rows.map(({ series }) => series)), Math.max(...rows.map(({ series }) => series))]
      const columns = unionFields(inputs).map(
        ({ id: field, column: name, type, scale }): SegmentColumn => ({ field, name, type, scale, encoding: { kind: 'plain' } }),
      )
      const extent = { minTime: String(times[0]), maxTime: String(times.at(-1)), minSeries, maxSeries }
      return { id, table, sequence, level: 0, cleared, file: '', rows: rows.length, bytes, crc, ...extent, dirty, columns }
    } catch (error) {
      await this.fs.promises.rm(task.path, { force: true })
      throw error
    }
  }
}

function columnsOf(table: TableDef, present: ReadonlySet<number>): SegmentColumn[] {
  return table.fields
    .filter(({ id }) => present.has(id))
    .map(({ id, column, type, scale }) => ({ field: id, name: column, type, scale, encoding: { kind: 'plain' } }))
}

function countRows(rows: readonly Row[]): [measurement: number, rows: number][] {
  const counts = new Map<number, number>()
  for (const { measurement } of rows) counts.set(measurement, (counts.get(measurement) ?? 0) + 1)
  return [...counts]
}
