/**
 * An engine without local queries. A write is checked as far as can be without knowing what is stored, appended to the queue, and acknowledged when it is durable
 * there; senders bring it to the upstream. What would have to look at points is refused: the upstream has them.
 */
import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type {
  AdmissionBounds,
  Capability,
  ChangeCursor,
  Connector,
  DeleteResult,
  MeasurementInfo,
  MeasurementsPage,
  MeasurementsPageRequest,
  NamespaceGuard,
  NamespaceUsage,
  RunningJob,
  ScanPlan,
  SeriesChunk,
  StateStore,
  StorageContext,
  StorageEngine,
  StorageStatus,
  WriteOptions,
  WriteResult,
} from 'svcdb'
import { WriteBatch } from 'svcdb/lib/columns'
import { SvcError } from 'svcdb/lib/errors'
import { makeFolder, ProcessLock, replaceFile } from 'svcdb/lib/files'
import { DeadLetters } from 'svcdb/lib/source'
import { closeToOthers, contentsOf } from '../common/data-directory.ts'
import { type Limits, limitsOf } from '../common/limits.ts'
import { type FileSystem, realFileSystem } from '../common/log/file-system.ts'
import { NamespaceGate } from '../common/namespace-gate.ts'
import { warnOfOtherEngine } from '../common/other-engine.ts'
import { ADMITS_ALL } from '../common/retention.ts'
import { realTimers, type Timer } from '../common/timers.ts'
import { admissionOf, Window } from '../common/window.ts'
import { admit, takeBack } from './admission.ts'
import { type ForwardSection, policyOf } from './config.ts'
import { ForwardMetrics } from './metrics.ts'
import { paths, positionFileName } from './paths.ts'
import { noteCounted, notedCount, type SavedPlaces, savedPlaces } from './position-file.ts'
import { Queue } from './queue.ts'
import { estimateBytes } from './record.ts'
import { SendTimes } from './send-times.ts'
import { Sender } from './sender.ts'
import { type Measurement, SeriesNames } from './series.ts'
import { FileState, StateOwners } from './state.ts'
import { Upstream } from './upstream.ts'

export const capabilities: ReadonlySet<Capability> = new Set<Capability>(['points', 'state'])
const KEPT_REJECTIONS = 16
/** Empty batches kept for the next decoder. */
const POOLED = 4
/** How often what is too old is looked for. */
const EXPIRE_MS = 1000
/** The sender of mode failover. */
const FAILOVER = 'upstream'
/** Of a sender, where connectors are listed and in the name of its dead letters' file. */
const connectorName = (sender: string): string => `forward-${sender}`

export interface ForwardEnvironment {
  fs: FileSystem
  lock(path: string): { acquire(): void; release(): void }
  /** Milliseconds that never go back. */
  monotonic(): number
  /** Ends early when the signal does, without an error. */
  pause(ms: number, signal: AbortSignal): Promise<void>
}

export const realEnvironment: ForwardEnvironment = {
  fs: realFileSystem,
  monotonic: () => performance.now(),
  pause: (ms, signal) => sleep(ms, undefined, { signal, ref: false }).catch(() => {}),
  lock: (path) =>
    new ProcessLock(path, {
      held: (holder) => `cannot open data directory: ${holder} has it open ("${path}"); stop it or choose another data_dir`,
      unclear: `cannot open data directory: its lock "${path}" changes hands, or is no lock; start one server only, or remove it`,
      unlockable: (cause) => `cannot open data directory: its lock file "${path}.os" cannot be locked (${cause}); put it on a file system that has locks`,
    }),
}

interface Running {
  queue: Queue
  senders: Sender[]
  upstreams: Upstream[]
  letters: DeadLetters[]
  timer: Timer
}

export class ForwardEngine implements StorageEngine {
  readonly capabilities = capabilities
  readonly resolver: SeriesNames
  private readonly context: StorageContext
  private readonly config: ForwardSection
  private readonly environment: ForwardEnvironment
  private readonly limits: Limits
  private readonly files: ReturnType<typeof paths>
  private readonly gate = new NamespaceGate()
  private readonly windows = new Map<string, Window>()
  private readonly states = new Map<string, FileState>()
  private owners: StateOwners | undefined
  private readonly pool: WriteBatch[] = []
  private readonly lock: { acquire(): void; release(): void }
  private readonly metrics: ForwardMetrics
  private running: Running | undefined
  /** The number of this start. */
  private life = 0
  private readonly keyOf = (series: number): Uint8Array => this.resolver.of(series).key

  constructor(context: StorageContext, environment: ForwardEnvironment = realEnvironment) {
    this.context = context
    this.config = context.config as unknown as ForwardSection
    this.environment = environment
    this.limits = limitsOf(context.config)
    this.resolver = new SeriesNames(this.limits, this.config.forward.max_series_cached, this.config.forward.max_cached_bytes)
    this.files = paths(this.config.data_dir)
    this.lock = environment.lock(this.files.lock)
    this.metrics = new ForwardMetrics(context.metrics, {
      bytes: () => this.running?.queue.bytes ?? 0,
      maxBytes: this.config.forward.max_size,
      oldestMs: () => this.running?.queue.oldestMs,
      waiting: () =>
        this.running?.senders.map(({ name, parkedNamespaces }) => ({ name, parkedNamespaces, ...(this.running as Running).queue.waitingFor(name) })) ?? [],
      up: () => this.running?.upstreams ?? [],
      now: () => context.now(),
    })
  }

  async open(): Promise<void> {
    try {
      await this.begin()
    } catch (error) {
      throw error instanceof SvcError ? error : unopened(this.config.data_dir, error as Error)
    }
  }

  private async begin(): Promise<void> {
    const { files, environment, config } = this
    const found = contentsOf(config.data_dir, environment.fs)
    await makeFolder(config.data_dir)
    this.lock.acquire()
    closeToOthers(config.data_dir, found, basename(files.queue), environment.fs, this.context.log)
    warnOfOtherEngine('forward', config.data_dir, environment.fs, this.context.log)
    environment.fs.mkdirSync(files.queue)
    await makeFolder(files.state)
    await makeFolder(files.positions)
    this.owners = await StateOwners.open(files.state, files.stateOwners)
    this.states.clear()
    const queue = this.queue()
    const names = config.forward.mode === 'copy' ? config.forward.upstream.map(({ name }) => name) : [FAILOVER]
    const saved = await Promise.all(names.map((name) => this.savedPlaces(name)))
    const counted = await this.notedCount()
    this.life = (counted?.life ?? 0) + 1
    const [furthest] = [...saved.map((one) => one?.at), counted].flatMap((one) => one ?? []).sort((a, b) => b.sequence - a.sequence)
    await queue.open(furthest)
    await this.noteCount(queue)
    const identity = await this.identity(counted !== undefined)
    const upstreams = config.forward.upstream.map((one) => new Upstream(one, config.forward))
    const times = new SendTimes(config.forward.send_between, config.forward.time_zone)
    const letters = names.map((name) => this.deadLetters(name))
    const senders = names.map((name, i) => {
      const own = config.forward.mode === 'copy' ? [upstreams[i]] : upstreams
      const { log } = this.context
      return new Sender(
        {
          name,
          upstreams: own,
          queue,
          config: config.forward,
          times,
          letters: letters[i],
          metrics: this.metrics,
          path: join(files.positions, positionFileName(name)),
          identity,
          life: this.life,
          log,
          tracing: this.context.tracing,
          now: () => this.context.now(),
          monotonic: this.environment.monotonic,
          pause: this.environment.pause,
          conflict: (namespace, measurement) => this.resolver.forgetTypes(namespace, measurement),
        },
        saved[i],
      )
    })
    const timer = realTimers.setInterval(() => queue.expire(), EXPIRE_MS).unref()
    this.running = { queue, senders, upstreams, letters, timer }
    for (const sender of senders) sender.start()
  }

  /** Of a sender. */
  private deadLetters(sender: string): DeadLetters {
    this.metrics.lettersDropped.inc({ upstream: sender }, 0)
    return new DeadLetters({
      folder: this.files.deadLetters,
      name: connectorName(sender),
      maxBytes: this.config.forward.dead_letter_bytes,
      dropped: (points) => {
        this.metrics.lettersDropped.inc({ upstream: sender }, points)
        this.context.log.warn({ points, upstream: sender }, 'dead letters are gone, their file was full')
      },
    })
  }

  async close(): Promise<void> {
    const { running } = this
    this.running = undefined
    try {
      if (running === undefined) return
      realTimers.clearInterval(running.timer)
      for (const upstream of running.upstreams) upstream.up = false
      await Promise.all(running.senders.map((sender) => sender.stop()))
      await Promise.all(running.upstreams.map((upstream) => upstream.close()))
      await Promise.all(running.letters.map((letters) => letters.close()))
      await running.queue.close()
      await this.noteCount(running.queue)
    } finally {
      this.lock.release()
    }
  }

  batch(namespace: string): WriteBatch {
    const batch = this.pool.pop() ?? new WriteBatch(this.resolver)
    batch.namespace = namespace
    this.resolver.begun(batch)
    return batch
  }

  recycle(batch: WriteBatch): void {
    this.end(batch, true)
  }

  async write(batch: WriteBatch, { backfill = false, nonFinite = false }: WriteOptions = {}): Promise<WriteResult> {
    let reusable = false
    let durable: Promise<void> | undefined
    let points: number
    let refused: WriteResult['rejections']
    try {
      const { queue } = this.opened()
      this.gate.requireOpen(batch.namespace)
      if (queue.fault !== undefined) throw queue.fault
      this.makeRoom(queue, batch)
      const window = this.window(batch.namespace)
      const admitted = admit(batch, { names: this.resolver, limits: this.limits, window, bounds: window.open(this.context.now(), backfill), nonFinite })
      points = admitted.rows
      refused = admitted.refused
      reusable = refused.length === 0
      if (points > 0) {
        const head = { points, takenMs: this.context.now(), namespace: batch.namespace, backfill, nonFinite }
        durable = queue.append(batch, head, this.keyOf, () => takeBack(admitted, window))
      }
    } finally {
      this.end(batch, reusable)
    }
    await durable
    return { written: points, rejected: refused.length, rejections: refused.slice(0, KEPT_REJECTIONS) }
  }

  async declareField(): Promise<MeasurementInfo> {
    throw unable('declare a field')
  }

  /** Those that were written to since the start. */
  async measurements(namespace: string, only?: string): Promise<MeasurementInfo[]> {
    if (only === undefined) return [...this.resolver.list(namespace)].map(infoOf)
    const known = this.resolver.find(namespace, only)
    return known === undefined ? [] : [infoOf(known)]
  }

  async measurementsPage({ namespace, offset = 0, limit }: MeasurementsPageRequest): Promise<MeasurementsPage> {
    const items: MeasurementInfo[] = []
    let total = 0
    for (const known of this.resolver.list(namespace)) if (total++ >= offset && items.length < limit) items.push(infoOf(known))
    return { items, total }
  }

  async namespaces(): Promise<string[]> {
    return this.resolver.namespaces()
  }

  /** What is known here; the upstream has the whole. */
  async usage(namespace: string): Promise<NamespaceUsage> {
    return { ...this.resolver.count(namespace), bytes: 0 }
  }

  guard(guard: NamespaceGuard): void {
    this.gate.guard = guard
  }

  async delete(): Promise<DeleteResult> {
    throw unable('delete points')
  }

  async drop(): Promise<void> {
    throw unable('drop a measurement')
  }

  async restore(): Promise<void> {
    throw unable('restore a measurement')
  }

  async admission(namespace: string, measurement: string): Promise<AdmissionBounds> {
    return admissionOf(this.window(namespace), this.context.now(), ADMITS_ALL, measurement)
  }

  /** There is no retention here. */
  holdRetention(): () => void {
    return () => {}
  }

  // biome-ignore lint/correctness/useYield: it has nothing to yield
  async *scan(): AsyncIterable<SeriesChunk> {
    throw unable('read points')
  }

  async explain(): Promise<ScanPlan> {
    throw unable('read points')
  }

  run<R>(): RunningJob<R> {
    throw unable('answer queries')
  }

  changes(): ChangeCursor {
    throw unable('tell changes')
  }

  state(owner: string): StateStore {
    if (this.owners === undefined) throw new SvcError('DATABASE_CLOSED', 'the queue is not open')
    let state = this.states.get(owner)
    if (state === undefined) this.states.set(owner, (state = new FileState(owner, this.owners)))
    return state
  }

  async stateOwners(): Promise<string[]> {
    const owners: string[] = []
    for (const owner of this.owners?.all() ?? []) if ((await this.state(owner).list({ limit: 1 })).length > 0) owners.push(owner)
    return owners
  }

  status(): StorageStatus {
    const { running } = this
    if (running === undefined) return { accepting: false, reason: 'the database is closed' }
    const { fault } = running.queue
    return fault === undefined ? { accepting: true } : { accepting: false, reason: fault.message }
  }

  /** One for each place in the queue: the upstream in use, or in mode copy each. While namespaces are parked there is another one beside it, which says why. */
  connectors(): readonly Connector[] {
    const { running } = this
    return (running?.senders ?? []).flatMap((sender): Connector[] => {
      const name = connectorName(sender.name)
      const shared = { type: 'forward', namespace: '' }
      const whole = { ...shared, name, status: () => sender.link.status(name), lag: () => running?.queue.waitingFor(sender.name).records ?? null }
      const parked = sender.parkedStatus(`${name}.parked`)
      return parked === undefined ? [whole] : [whole, { ...shared, name: parked.name, status: () => parked, lag: () => sender.parkedRecords }]
    })
  }

  async flush(): Promise<void> {
    this.opened()
  }

  /** Resolves when the upstream has all that was written before, or has refused it; for tests. */
  async drained(): Promise<void> {
    const { queue } = this.opened()
    while (this.running !== undefined && queue.waitingAtMost.records > 0) await new Promise((resolve) => setTimeout(resolve, 2))
  }

  private queue(): Queue {
    const { context, metrics, files } = this
    const { forward, wal_fsync_policy } = this.config
    return new Queue({
      dir: files.queue,
      damagedDir: files.damaged,
      policy: policyOf(wal_fsync_policy),
      bounds: { maxBytes: forward.max_size, maxAgeMs: forward.max_age_secs * 1000, whenFull: forward.when_full, fileBytes: forward.file_size },
      fs: this.environment.fs,
      timers: realTimers,
      now: () => context.now(),
      monotonic: this.environment.monotonic,
      events: {
        dropped: (reason, records, points) => {
          metrics.dropped.inc({ reason }, points)
          context.log.warn({ reason, records, points }, 'points were dropped from the queue')
        },
        damaged: (file, at, bytes, cause) => {
          metrics.damaged.inc(bytes)
          context.log.error(
            { file, at, bytes, cause, folder: files.damaged },
            'a part of the queue cannot be read and was passed over; what the disk gave back of it is kept',
          )
        },
        warning: (error, text) => context.log.warn({ err: error }, text),
        fsyncs: () => metrics.fsyncs.inc(),
        written: (bytes) => metrics.written.inc(bytes),
      },
    })
  }

  private makeRoom(queue: Queue, batch: WriteBatch): void {
    try {
      queue.admit(estimateBytes(batch, this.keyOf))
    } catch (error) {
      this.metrics.refused.inc()
      throw error
    }
  }

  private savedPlaces(name: string): Promise<SavedPlaces | undefined> {
    const path = join(this.files.positions, positionFileName(name))
    const text = `cannot read "${path}", where it stands how far the upstream is; all that is still in the queue is sent, what the upstream has once more`
    return savedPlaces(path, (err) => this.context.log.warn({ err }, text))
  }

  private async notedCount(): ReturnType<typeof notedCount> {
    try {
      return await notedCount(this.files.counted)
    } catch (error) {
      this.context.log.warn(
        { err: error },
        `cannot read "${this.files.counted}", where it stands how much was taken; what is missing at the end of the queue is not noticed`,
      )
      return undefined
    }
  }

  private async noteCount(queue: Queue): Promise<void> {
    try {
      await noteCounted(this.files.counted, queue.counted, this.life)
    } catch (error) {
      this.context.log.warn({ err: error }, 'cannot note how much was taken; what goes missing at the end of the queue is not noticed')
    }
  }

  /** Of the queue, made once: upstreams know repeated requests by it. @param isOld it has one, if nothing was lost. */
  private async identity(isOld: boolean): Promise<string> {
    const path = this.files.identity
    try {
      const known = (await readFile(path, 'utf8')).trim()
      if (/^[0-9a-f]{16}$/.test(known)) return known
      throw new Error(`"${path}" does not have the 16 hexadecimal digits that it was made with`)
    } catch (error) {
      if (isOld || (error as NodeJS.ErrnoException).code !== 'ENOENT')
        this.context.log.warn({ err: error }, 'cannot read what names the queue to upstreams; it gets another name, and what they have may be sent again')
    }
    const made = randomBytes(8).toString('hex')
    await replaceFile(this.files.identity, `${made}\n`)
    return made
  }

  private end(batch: WriteBatch, reusable: boolean): void {
    this.resolver.ended(batch)
    // Rows that were taken out of the middle have left gaps in its columns.
    if (!reusable || this.pool.length >= POOLED) return
    batch.reset()
    this.pool.push(batch)
  }

  private window(namespace: string): Window {
    let window = this.windows.get(namespace)
    if (window === undefined) this.windows.set(namespace, (window = new Window(this.limits)))
    return window
  }

  private opened(): Running {
    if (this.running === undefined) throw new SvcError('DATABASE_CLOSED', 'cannot use the database: it is closed')
    return this.running
  }
}

function unopened(dir: string, cause: Error): SvcError {
  const hint = 'look at the disk; what waits is in its folder "queue": copied into a data_dir on another disk, it is sent from there'
  return new SvcError('DATABASE_ERROR', `cannot open data directory "${dir}": ${cause.message}; ${hint}`, { cause })
}

function unable(what: string): SvcError {
  return new SvcError('METHOD_NOT_ALLOWED', `cannot ${what} on this node: its storage engine "forward" sends points on and keeps none; ask the upstream node`)
}

function infoOf({ measurement, tags }: { measurement: Measurement; tags: ReadonlySet<string> }): MeasurementInfo {
  return { name: measurement.name, tags: [...tags].sort(), fields: [...measurement.fields.values()] }
}
