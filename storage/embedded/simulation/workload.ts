/** What clients do to a database, by seed: writes of all kinds, deletes, drops, restores, reads, maintenance, transactions of the state store. */
import type { FieldType, Matcher } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { Life } from './life.ts'
import { NAMESPACES } from './life.ts'
import { keyOf, type Operation, type Point } from './model.ts'
import type { Random } from './random.ts'
import type { Value } from './rows.ts'
import { Crash } from './scheduler.ts'
import type { Action } from './settings.ts'

const WIDE = ['m0', 'm1', 'm2', 'm3']
const NARROW = ['g0', 'g1', 'g2', 'g3']
const HOSTS = ['a', 'b', 'c', 'd']
const FIELDS: Record<string, FieldType> = { f0: 'float64', f1: 'int64', f2: 'float64', f3: 'bool', f4: 'int64', f5: 'string', f6: 'float64', f7: 'string' }
/** Names of fields beside those, most of them new when they are used. */
const OWN_NAMES = 60
const TYPES: readonly FieldType[] = ['float64', 'int64', 'string']
const NS_PER_MS = 1_000_000n
const FIRST_TIME = -(2n ** 63n)
const LAST_TIME = 2n ** 63n - 1n

/** Answers that come of the request, or of what goes on at the same time. */
const EXPECTED = new Set(['NOT_FOUND', 'CONFLICT', 'BACKPRESSURE', 'CARDINALITY_EXCEEDED', 'DATABASE_CLOSED', 'INVALID_POINT', 'SCHEMA_ERROR'])

export class Client {
  private readonly life: Life
  private readonly random: Random
  private readonly actions: [weight: number, action: () => Promise<void>][]
  /** How many points begin a series. */
  private readonly newSeries: number
  /** Milliseconds that a batch stays in the hands of its decoder, at most. */
  private readonly hold: number

  constructor(life: Life) {
    this.life = life
    this.random = life.world.random.fork()
    const { random } = this
    const usual: [Action, number, () => Promise<void>][] = [
      ['write', 66, () => this.write()],
      ['delete', 8, () => this.delete()],
      ['drop', 5, () => this.drop()],
      ['restore', 4, () => this.restore()],
      ['flush', 5, () => this.flush()],
      ['tidy', 4, () => this.tidy()],
      ['transaction', 3, () => this.transaction()],
      ['read', 2, () => this.read()],
      ['archive', 1, () => this.archive()],
      ['backup', 0.5, () => this.backup()],
      ['fill', 0.5, () => this.fill()],
      ['later', 1, () => this.later()],
    ]
    // Each client leaves some things alone and overdoes others: what needs two rare things close together would else hardly ever happen.
    const { weights } = life.profile
    this.actions = usual.map(([name, weight, action]) => [weight * (weights[name] ?? 1) * random.pick([0, 1, 1, 5]), action])
    this.newSeries = life.profile.newSeries ?? random.pick([0, 0.1, 0.5])
    this.hold = random.pick([5, 50, 2000])
  }

  /** @param actions how many. */
  async run(actions: number): Promise<void> {
    const { random, life } = this
    const underWay: Promise<void>[] = []
    for (let i = 0; i < actions && !life.over; i++) {
      const action = this.action()
      if (random.chance(0.5)) await action
      else underWay.push(action)
      if (random.chance(0.3)) await this.pause(random.chance(0.9) ? random.next() * 20 : random.next() * 3000)
    }
    await Promise.all(underWay)
  }

  /** A write and a flush, now that nothing fails any more. @param acknowledged gets the write. @returns why not. */
  async progress(acknowledged: (operation: Operation) => void): Promise<unknown> {
    const { life } = this
    const point: Point = { measurement: 'progress', tags: '', time: BigInt(Math.floor(life.world.wallClock)) * NS_PER_MS, fields: [] }
    point.fields.push({ name: 'v', type: 'float64', value: this.value('float64') })
    let failure: unknown
    for (let tries = 0; tries < 20 && !life.over; tries++) {
      const batch = life.engine.batch('')
      const ref = life.engine.resolver.measurement('', point.measurement)
      const table = batch.table(ref)
      const row = table.addRow(life.engine.resolver.series(ref, []), Number(BigInt.asIntN(32, point.time)), Number(point.time >> 32n), 0)
      setValue(batch, table, 'v', 'float64', row, point.fields[0].value)
      const operation = life.begin({ kind: 'write', namespace: '', points: [point] })
      life.world.see(point.time)
      try {
        const { rejected } = await life.engine.write(batch, {})
        if (rejected > 0) life.failed(operation, true)
        else {
          life.acknowledged(operation)
          acknowledged(operation)
        }
        await life.engine.flush()
        return undefined
      } catch (error) {
        failure = error
        if (operation.outcome === 'pending') life.failed(operation, false)
      }
      await this.pause(2000)
    }
    return failure
  }

  private action(): Promise<void> {
    let left = this.random.next() * this.actions.reduce((sum, [weight]) => sum + weight, 0)
    for (const [weight, action] of this.actions) if ((left -= weight) < 0) return action()
    return this.write()
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.life.world.scheduler.at(ms, 'client goes on', resolve))
  }

  /** The wall clock moves on by much. */
  private async later(): Promise<void> {
    this.life.world.skip(this.random.logarithmic(1000, 86_400_000))
  }

  /** Somebody else fills the disk, and frees it after a while. */
  private async fill(): Promise<void> {
    const { random, life } = this
    const { disk, scheduler } = life.world
    disk.capacity = disk.used + random.pick([0, 100, 1000, 20_000])
    life.machine.faults++
    scheduler.at(random.logarithmic(1, 20_000), 'space is freed', () => {
      disk.capacity = Number.POSITIVE_INFINITY
    })
  }

  private async write(): Promise<void> {
    const { random, life } = this
    const namespace = random.chance(0.85) ? NAMESPACES[0] : NAMESPACES[1]
    let points = Array.from({ length: random.logarithmic(1, 12) }, () => this.point(namespace))
    for (let tries = 0; tries < 3 && points.length > 0 && !life.over; tries++) {
      if (await this.send(namespace, points)) return
      if (random.chance(0.5)) return
      if (random.chance(0.3)) points = points.slice(1)
      await this.pause(random.next() * 50)
    }
  }

  /** @returns whether it was answered for good. */
  private async send(namespace: string, points: readonly Point[]): Promise<boolean> {
    const { random, life } = this
    const { engine, profile } = life
    const batch = engine.batch(namespace)
    try {
      for (const [i, { measurement, tags, time, fields }] of points.entries()) {
        const ref = engine.resolver.measurement(namespace, measurement)
        const series = engine.resolver.series(ref, tags === '' ? [] : tags.split(',').flatMap((pair) => pair.split('=')))
        const table = batch.table(ref)
        const row = table.addRow(series, Number(BigInt.asIntN(32, time)), Number(time >> 32n), i)
        for (const { name, type, value } of fields) setValue(batch, table, name, type, row, value)
      }
    } catch (error) {
      engine.recycle(batch)
      this.unexpected(error, 'decode')
      return true
    }
    if (random.chance(profile.held)) await this.pause(random.next() * this.hold)
    if (life.over) return true
    if (random.chance(profile.recycled)) {
      engine.recycle(batch)
      return random.chance(0.5)
    }
    // Those that will be refused are not known yet: the operation takes its place in the order now.
    const change = { kind: 'write' as const, namespace, points: [...points] }
    const operation = life.begin(change)
    for (const { time } of points) life.world.see(time)
    const wasDown = !engine.status().accepting
    try {
      life.refusedPoints = new Set()
      const written = engine.write(batch, { backfill: random.chance(0.5) })
      const { refusedPoints } = life
      change.points = points.filter((_, i) => !refusedPoints.has(i))
      await written
      if (change.points.length === 0) life.failed(operation, true)
      else life.acknowledged(operation)
      return true
    } catch (error) {
      this.answered(operation, error, wasDown, 'write')
      return false
    }
  }

  private point(namespace: string): Point {
    const { random, life } = this
    const { world } = life
    const again = world.recent.length > 0 && random.chance(0.25) ? random.pick(world.recent) : undefined
    const narrow = random.chance(0.4)
    const measurement = again?.measurement ?? random.pick(narrow ? NARROW : WIDE)
    const tags = again?.tags ?? this.tags()
    const time = again?.time ?? this.time()
    // A narrow measurement may grow another field one day.
    const names = NARROW.includes(measurement) && random.chance(0.97) ? ['v'] : this.fieldNames()
    const fields = names.map((name) => {
      const type = typeOf(name) ?? (random.chance(0.02) ? 'string' : 'float64')
      return { name, type, value: this.value(type) }
    })
    const point = { measurement, tags, time, fields }
    if (world.recent.length < 40) world.recent.push(point)
    else world.recent[random.int(40)] = point
    void namespace
    return point
  }

  private tags(): string {
    const { random, life } = this
    if (random.chance(0.05)) return ''
    if (random.chance(this.newSeries)) return `host=n${life.world.nextValue()}`
    const host = `host=${random.pick(HOSTS)}`
    return random.chance(0.2) ? `${host},region=${random.pick(['x', 'y'])}` : host
  }

  private time(): bigint {
    const { random, life } = this
    const wall = Math.floor(life.world.wallClock / 100) * 100
    const kind = random.next()
    const back =
      kind < 0.6 ? random.int(20) * 100 : kind < 0.8 ? random.int(600) * 1000 : kind < 0.95 ? random.int(72) * 3_600_000 : random.int(60) * 86_400_000
    return BigInt(wall - back) * NS_PER_MS
  }

  private fieldNames(): string[] {
    const { random, life } = this
    if (random.chance(0.02)) return ['v']
    if (random.chance(life.profile.newFields)) return [`x${random.int(OWN_NAMES)}`, ...(random.chance(0.5) ? ['f0'] : [])]
    const names = Object.keys(FIELDS)
    const first = random.int(random.chance(0.8) ? 3 : names.length)
    return names.slice(first, first + random.between(1, 3))
  }

  private value(type: FieldType): Value {
    const number = this.life.world.nextValue()
    switch (type) {
      case 'int64':
        return BigInt(number)
      case 'bool':
        return number % 2 === 0
      case 'string':
        return `v${number}`
      default:
        return number / 4
    }
  }

  private async delete(): Promise<void> {
    const { random, life } = this
    const namespace = random.pick(NAMESPACES)
    const measurement = random.pick([...WIDE, ...NARROW])
    const matchers: Matcher[] | undefined = random.chance(0.6) ? [{ tag: 'host', op: '=', value: random.pick(HOSTS) }] : undefined
    const whole = random.chance(0.4)
    const from = this.time()
    const [start, end] = whole ? [undefined, undefined] : [from, from + BigInt(random.logarithmic(1, 10_000_000)) * NS_PER_MS]
    let operation: Operation | undefined
    const begin = (selected: ReadonlySet<string> | undefined): void => {
      const tags = (text: string): boolean => selected?.has(text) ?? true
      operation = life.begin({ kind: 'delete', namespace, measurement, tags, start: start ?? FIRST_TIME, end: end ?? LAST_TIME })
    }
    const wasDown = !life.engine.status().accepting
    try {
      await life.deleting.run(begin, () => life.engine.delete({ namespace, measurement, matchers, start, end }))
      if (operation !== undefined) life.acknowledged(operation)
    } catch (error) {
      if (operation !== undefined) this.answered(operation, error, wasDown, 'delete')
      else this.unexpected(error, 'delete')
    }
  }

  private async drop(): Promise<void> {
    const { random, life } = this
    const namespace = random.pick(NAMESPACES)
    const measurement = random.pick([...WIDE, ...NARROW])
    // One pending drop of a name at a time: which of several comes back depends on their deadlines.
    if (life.world.pending.has(keyOf(namespace, measurement))) return
    const final = life.config.soft_delete_ttl_secs === undefined || random.chance(life.profile.final)
    if (!final) life.world.pending.add(keyOf(namespace, measurement))
    const operation = life.begin({ kind: 'drop', namespace, measurement, final })
    await this.call(operation, 'drop', async () => {
      await life.engine.drop(namespace, measurement, { final })
      return true
    })
    if (operation.outcome === 'refused') life.world.pending.delete(keyOf(namespace, measurement))
  }

  private async restore(): Promise<void> {
    const { random, life } = this
    const [key] = life.world.pending.size > 0 && random.chance(0.8) ? [random.pick([...life.world.pending])] : [keyOf('', random.pick(WIDE))]
    const [namespace, measurement] = [key.slice(0, key.indexOf('/')), key.slice(key.indexOf('/') + 1)]
    const operation = life.begin({ kind: 'restore', namespace, measurement })
    await this.call(operation, 'restore', async () => {
      await life.engine.restore(namespace, measurement)
      return true
    })
    if (operation.outcome === 'acknowledged') life.world.pending.delete(key)
  }

  private async flush(): Promise<void> {
    await this.quietly('flush', () => this.life.engine.flush())
  }

  private async tidy(): Promise<void> {
    await this.quietly('tidy', () => this.life.engine.tidy())
  }

  private async archive(): Promise<void> {
    const { random, life } = this
    await this.quietly('archive', async () => {
      const { failure } = await life.engine.archive.run({ coldAfterSecs: random.pick([0, 3600, 86_400]), maxObjects: random.between(1, 6) })
      if (failure !== undefined) throw failure
    })
  }

  private async backup(): Promise<void> {
    const { random, life } = this
    const { world } = life
    const directory = `/backups/${random.int(2)}`
    const reading = world.history.read()
    const values = world.stateHistory.copying()
    // A new one takes the place of what was there.
    world.backups.delete(directory)
    const begun = world.scheduler.steps
    try {
      await life.engine.backup.create(directory)
      if (life.over) return
      world.backups.set(directory, { directory, begun, states: world.history.states(reading, life.cutoff), values: values() })
    } catch (error) {
      world.history.giveUp(reading)
      this.unexpected(error, 'backup')
    }
  }

  private async transaction(): Promise<void> {
    const { random, life } = this
    const puts = Array.from({ length: random.between(1, 3) }, (): [string, number | undefined] => [
      `k${random.int(5)}`,
      random.chance(0.2) ? undefined : life.world.nextValue(),
    ])
    const transaction = life.world.stateHistory.begin(puts)
    try {
      await life.engine.state('simulation').transaction((tx) => {
        for (const [key, value] of puts) {
          if (value === undefined) tx.delete(key)
          else tx.put(key, value)
        }
      })
      if (!life.over) transaction.outcome = 'acknowledged'
    } catch (error) {
      if (life.over) return
      transaction.outcome = error instanceof SvcError && error.code === 'OVERLOADED' ? 'unknown' : 'refused'
      this.unexpected(error, 'transaction')
    }
  }

  private async read(): Promise<void> {
    const { life } = this
    const reading = life.world.history.read()
    try {
      const observed = await life.observe()
      if (life.over) return
      const problem = life.world.history.compare(reading, observed, life.cutoff)
      if (problem !== undefined) life.world.violation(`a read while it runs: ${problem}`)
    } catch (error) {
      life.world.history.giveUp(reading)
      this.unexpected(error, 'read')
    }
  }

  /** @param run says whether there was anything to do: what changes nothing does not go to the log. */
  private async call(operation: Operation, what: string, run: () => Promise<boolean>): Promise<void> {
    const wasDown = !this.life.engine.status().accepting
    try {
      if (await run()) this.life.acknowledged(operation)
      else this.life.failed(operation, true)
    } catch (error) {
      this.answered(operation, error, wasDown, what)
    }
  }

  private async quietly(what: string, run: () => Promise<unknown>): Promise<void> {
    try {
      await run()
    } catch (error) {
      this.unexpected(error, what)
    }
  }

  private answered(operation: Operation, error: unknown, wasDown: boolean, what: string): void {
    // OVERLOADED leaves the outcome open where it ends all writes, and did not before: a want of file handles is OVERLOADED as well.
    const open = error instanceof SvcError && error.code === 'OVERLOADED' && !wasDown && !this.life.engine.status().accepting
    this.life.failed(operation, !open)
    this.unexpected(error, what)
  }

  /** An error that neither the request nor a fault explains. */
  private unexpected(error: unknown, what: string): void {
    const { life } = this
    if (life.over || error instanceof Crash || life.machine.faults > 0) return
    if (error instanceof SvcError && EXPECTED.has(error.code)) return
    life.world.violation(`${what} failed without a fault: ${(error as Error).message}`, error)
  }
}

function typeOf(name: string): FieldType | undefined {
  return name[0] === 'x' ? TYPES[Number(name.slice(1)) % TYPES.length] : FIELDS[name]
}

type Batch = ReturnType<Life['engine']['batch']>

function setValue(batch: Batch, table: ReturnType<Batch['table']>, name: string, type: FieldType, row: number, value: Value): void {
  const column = table.column(name, type)
  if (typeof value === 'number') column.setF64(row, value)
  else if (typeof value === 'boolean') column.setBool(row, value)
  else if (typeof value === 'bigint') column.setPair(row, Number(BigInt.asIntN(32, value)), Number(value >> 32n))
  else {
    const at = batch.text(value)
    column.setPair(row, at, batch.heap.length - at)
  }
}
