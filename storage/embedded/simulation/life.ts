/** One life of a database: a process that opens it, serves it for a while, and ends. */

import { AsyncLocalStorage } from 'node:async_hooks'
import type { StorageContext } from 'svcdb'
import { type Limits, limitsOf } from '../../common/limits.ts'
import { measurementCutoff, type RetentionSettings, retentionSettings } from '../../common/retention.ts'
import { earlier } from '../../common/time.ts'
import { EmbeddedEngine } from '../engine.ts'
import type { Environment } from '../environment.ts'
import { paths, walFileName } from '../paths.ts'
import { inside } from '../testing/catalog-faults.ts'
import { SimulatedFiles } from './file-system.ts'
import { Machine } from './machine.ts'
import type { Operation } from './model.ts'
import { simulatedObjects } from './objects.ts'
import type { Scanned } from './scan.ts'
import type { Profile } from './settings.ts'
import { SimulatedStore } from './store.ts'
import { SimulatedThread } from './thread.ts'
import type { World } from './world.ts'

export const NAMESPACES = ['', 'other']
const SCAN = new URL('file:///simulation/scan')

export class Life {
  readonly engine: EmbeddedEngine
  readonly machine: Machine
  readonly config: Record<string, unknown>
  readonly world: World
  readonly profile: Profile
  /** Set when the process has ended: nothing that it answers counts. */
  over = false
  private readonly fs: SimulatedFiles
  /** Called when the record of a delete is made, with the tags of the series it means; undefined = all of the measurement. */
  readonly deleting = new AsyncLocalStorage<(tags: ReadonlySet<string> | undefined) => void>()
  /** Of the write called last. */
  refusedPoints: ReadonlySet<number> = new Set()
  private readonly limits: Limits
  private readonly settings: RetentionSettings
  private readonly walDir: string
  private readonly periodic: boolean
  private readonly byFile = new Map<string, Operation[]>()

  constructor(world: World, dataDir: string, config: Record<string, unknown>, profile: Profile) {
    this.world = world
    this.profile = profile
    this.config = config
    this.machine = new Machine(world.scheduler, world.disk, world.random.fork())
    this.limits = limitsOf(config)
    this.settings = retentionSettings(config, this.limits)
    this.walDir = paths(dataDir).wal
    this.fs = new SimulatedFiles(this.machine, { syncing: (path) => this.syncing(path) })
    this.periodic = String(config.wal_fsync_policy).startsWith('periodic')
    const context = {
      config: { ...config, data_dir: dataDir },
      log: this.log(),
      metrics: NO_METRICS,
      now: () => Math.floor(world.wallClock),
    } as unknown as StorageContext
    this.engine = new EmbeddedEngine(context, this.environment())
  }

  /** What of a write was refused is known when it is called, not only when it is answered: a write whose answer is lost may be there without those points. */
  private watchAdmission(): void {
    const { admission } = inside(this.engine)
    const admit = admission.admit.bind(admission)
    admission.admit = (...args) => {
      const admitted = admit(...args)
      this.refusedPoints = new Set(admitted.rejections.map(({ position }) => position))
      return admitted
    }
  }

  /** A delete selects its series first. Its position among the writes is that of its record, and it means these series: one that comes later is not part of it. */
  private watchDeletes(): void {
    const { writes, index } = inside(this.engine)
    const change = writes.change.bind(writes)
    writes.change = (record, apply, undo) => {
      if (record.kind === 'delete') {
        const { series } = record
        this.deleting.getStore()?.(series === null ? undefined : new Set([...series].map((number) => pairs(index.tagsOf(number)))))
      }
      return change(record, apply, undo)
    }
  }

  private environment(): Environment {
    const { machine, fs } = this
    return {
      fs,
      timers: machine.scheduler,
      openStore: (dir) => new SimulatedStore(machine, dir),
      startThread: (data) => new SimulatedThread(data, machine),
      lock: () => ({ acquire() {}, release() {} }),
      random: (bytes) => Buffer.from(Array.from({ length: bytes }, () => machine.random.int(256))),
    }
  }

  private log(): StorageContext['log'] {
    const { scheduler } = this.world
    const line =
      (level: string) =>
      (...args: unknown[]): void =>
        scheduler.trace?.(`  ${level}: ${args.map((arg) => (typeof arg === 'string' ? arg : describe(arg))).join(' ')}`)
    return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') } as unknown as StorageContext['log']
  }

  /** Opens the engine, with the archive's store attached. */
  async open(): Promise<void> {
    await this.engine.open()
    this.watchAdmission()
    this.watchDeletes()
    const { objects, removed, scheduler } = this.world
    this.engine.archive.attach(simulatedObjects(objects, (key) => removed.set(key, scheduler.steps), this.machine, this.fs))
  }

  /** First time that retention keeps of a measurement, at the latest. */
  readonly cutoff = (measurement: string): bigint => {
    const { world } = this
    const clock = earlier(world.newest, BigInt(Math.floor(world.wallClock)) * 1_000_000n)
    return measurementCutoff(this.settings, this.limits, clock, '', measurement, [])
  }

  /** A call is made whose outcome is to be remembered. */
  begin(change: Operation['change']): Operation {
    const { trace } = this.world.scheduler
    const operation = this.world.history.begin(change, this.cutoff)
    trace?.(`  CALL ${operation.number} ${describe(change)}`)
    this.world.follower.begin(operation)
    return operation
  }

  acknowledged(operation: Operation): void {
    if (this.over) return
    this.world.scheduler.trace?.(`  ACKNOWLEDGED ${operation.number}`)
    if (!this.periodic) return this.world.history.end(operation, 'acknowledged', true)
    operation.outcome = 'acknowledged'
    const { wal } = inside(this.engine)
    const file = `${this.walDir}/${walFileName(wal.file)}`
    const list = this.byFile.get(file)
    if (list === undefined) this.byFile.set(file, [operation])
    else list.push(operation)
  }

  /** @param refused nothing of it is there. */
  failed(operation: Operation, refused: boolean): void {
    if (this.over) return
    this.world.scheduler.trace?.(`  ${refused ? 'REFUSED' : 'UNKNOWN'} ${operation.number}`)
    if (refused && operation.delivered) this.world.violation(`operation ${operation.number} was refused, and a reader of changes was given it`)
    this.world.history.end(operation, refused ? 'refused' : 'unknown', false)
  }

  private syncing(path: string): (succeeded: boolean) => void {
    const operations = new Set(this.byFile.get(path))
    return (succeeded) => {
      // What a sync that failed was to write may count as clean: no later sync makes it durable.
      if (succeeded) for (const operation of operations) if (!operation.durable) this.world.history.end(operation, 'acknowledged', true)
      this.byFile.set(
        path,
        (this.byFile.get(path) ?? []).filter((operation) => !operations.has(operation)),
      )
    }
  }

  /** Everything there is, in one snapshot. */
  observe(): Promise<Scanned[]> {
    const namespaces = NAMESPACES.map((namespace) => ({ namespace }))
    return this.engine.run<Scanned[]>(SCAN, namespaces).result
  }

  /** @returns two live series with equal tags, if there are. */
  doubled(): string | undefined {
    const { index } = inside(this.engine)
    const seen = new Map<string, number>()
    for (let series = 0; series < index.count; series++) {
      if (!index.isLive(series)) continue
      const key = `${index.measurementOf(series)} ${index.tagsOf(series).join(',')}`
      const other = seen.get(key)
      if (other !== undefined) return `series ${other} and ${series} both live and have tags ${key}`
      seen.set(key, series)
    }
    return undefined
  }

  /** What the engine lists, as `observe` gives it. */
  async listed(): Promise<Pick<Scanned, 'namespace' | 'name' | 'fields'>[]> {
    const listings = await Promise.all(
      NAMESPACES.map(async (namespace) =>
        (await this.engine.measurements(namespace)).map(({ name, fields }) => ({ namespace, name, fields: fields.map((field) => [field.name, field.type]) })),
      ),
    )
    return listings.flat() as Pick<Scanned, 'namespace' | 'name' | 'fields'>[]
  }
}

const NOTHING = { inc() {}, set() {}, observe() {} }
const NO_METRICS = { counter: () => NOTHING, gauge: () => NOTHING, histogram: () => NOTHING }

function describe(value: unknown): string {
  return JSON.stringify(value, (_, inner) => (inner instanceof Error ? inner.message : typeof inner === 'bigint' ? String(inner) : inner))
}

/** As points name their tags. */
function pairs(tags: readonly string[]): string {
  const out: string[] = []
  for (let i = 0; i < tags.length; i += 2) out.push(`${tags[i]}=${tags[i + 1]}`)
  return out.join(',')
}
