/** A database through several lives, all from one seed: opened, used, ended in one way or another, and compared with the model each time. */
import { INT64_MIN, later } from '../../common/time.ts'
import { type Backup, backupProblem } from './backups.ts'
import { Disk } from './disk.ts'
import { Follower } from './follower.ts'
import { History, StateHistory } from './history.ts'
import { Life } from './life.ts'
import { NO_FAULTS } from './machine.ts'
import type { Operation, Point } from './model.ts'
import { Random } from './random.ts'
import { Scheduler } from './scheduler.ts'
import { configOf, profileOf, ratesOf } from './settings.ts'
import { Client } from './workload.ts'

const START_MS = Date.UTC(2024, 0, 1, 12)
const DATA = '/data'
/** Events that a life or a step of it may take: more is a hang. */
const PATIENCE = 200_000

export type End = 'close' | 'kill' | 'power'

export class Violation extends Error {}

interface WorldResult {
  lives: number
  /** What went wrong, if anything. */
  problem: string | undefined
  steps: number
  hash: number
}

export class World {
  readonly random: Random
  readonly scheduler: Scheduler
  readonly disk: Disk
  readonly history = new History()
  readonly stateHistory = new StateHistory()
  /** Names with a drop that may be undone. */
  readonly pending = new Set<string>()
  readonly recent: Point[] = []
  /** What the archive's store holds. */
  readonly objects = new Map<string, Uint8Array>()
  /** What was removed from it, with the event at which it was. */
  readonly removed = new Map<string, number>()
  readonly backups = new Map<string, Backup>()
  readonly follower: Follower
  /** A process beside the one under test, for restored backups. */
  private side: Life | undefined
  /** Newest time that a write has carried. */
  newest = INT64_MIN
  private skipped = 0
  private value = 0
  private problem: string | undefined
  private lives = 0

  constructor(seed: number, trace?: (line: string) => void) {
    this.random = new Random(seed)
    this.scheduler = new Scheduler(this.random.fork())
    this.scheduler.trace = trace
    this.disk = new Disk(this.random.fork())
    this.follower = new Follower(this.random.fork(), (problem, cause) => this.violation(problem, cause))
  }

  /** Milliseconds since the Unix epoch. */
  get wallClock(): number {
    return START_MS + this.scheduler.now + this.skipped
  }

  skip(ms: number): void {
    this.skipped += ms
  }

  see(time: bigint): void {
    this.newest = later(this.newest, time)
  }

  nextValue(): number {
    return ++this.value
  }

  violation(problem: string, cause?: unknown): void {
    this.problem ??= cause instanceof Error ? `${problem}\n${cause.stack}` : problem
    this.scheduler.trace?.(`VIOLATION ${problem}`)
  }

  /** @param maxLives lives. */
  async run(maxLives: number): Promise<WorldResult> {
    const rejected = (error: unknown): void => this.violation('a rejection that nobody handles', error)
    process.on('unhandledRejection', rejected)
    try {
      while (this.lives < maxLives && this.problem === undefined && this.scheduler.steps < this.scheduler.until) await this.life(this.lives === maxLives - 1)
    } catch (error) {
      this.violation('the simulation failed', error)
    } finally {
      process.off('unhandledRejection', rejected)
    }
    const { lives, problem, scheduler } = this
    return { lives, problem, steps: scheduler.steps, hash: scheduler.hash >>> 0 }
  }

  private async life(last: boolean): Promise<void> {
    const { random, scheduler } = this
    this.lives++
    const profile = profileOf(random)
    const life = new Life(this, DATA, { ...configOf(random), ...profile.config(random) }, profile)
    const end: End = last || random.chance(0.2) ? 'close' : random.chance(profile.power) ? 'power' : 'kill'
    const usual = profile.rates === undefined
    const rates = last || random.chance(usual ? 0.4 : 0.1) ? NO_FAULTS : ratesOf(random, profile)
    life.machine.slow = random.chance(0.7) ? profile.slow?.(random) : undefined
    scheduler.trace?.(`LIFE ${this.lives} (${profile.name}) ends by ${end}, config ${JSON.stringify(life.config)}, rates ${JSON.stringify(rates)}`)
    this.disk.capacity = Number.POSITIVE_INFINITY
    scheduler.crashAt = Number.POSITIVE_INFINITY
    if (end !== 'close') {
      if (random.chance(0.3)) scheduler.crashAt = scheduler.steps + random.logarithmic(1, 2500)
      scheduler.onCrash = () => this.crashed(life, end)
    }
    life.machine.rates = random.chance(0.3) ? rates : NO_FAULTS
    if (await this.open(life)) {
      this.follower.retain(life.cutoff)
      await this.compare(life)
      life.machine.rates = rates
      if (end !== 'close' && !life.over) this.crashLater(life)
      if (!life.over && this.problem === undefined) await this.use(life)
    }
    if (!life.over) {
      if (end === 'close' && this.problem === undefined) await this.close(life)
      else {
        scheduler.crashAt = Number.POSITIVE_INFINITY
        this.crashed(life, end === 'close' ? 'kill' : end)
      }
    }
    scheduler.clear()
  }

  /** It ends while it is used, perhaps soon after a fault: what one has left half done, later steps may put right. */
  private crashLater({ machine }: Life): void {
    const { random, scheduler } = this
    scheduler.crashAt = Math.min(scheduler.crashAt, scheduler.steps + random.logarithmic(10, 2500))
    if (random.chance(0.5)) return
    scheduler.crashAt = Math.max(scheduler.crashAt, scheduler.steps + 1000)
    const soon = random.logarithmic(3, 1000)
    machine.struck = () => {
      scheduler.crashAt = Math.min(scheduler.crashAt, scheduler.steps + soon)
      machine.struck = () => {}
    }
  }

  /** @returns whether it is open. */
  private async open(life: Life): Promise<boolean> {
    const error = await this.settledOf(life, 'open', life.open())
    if (life.over || this.problem !== undefined) return false
    if (error === undefined) return true
    if (life.machine.faults === 0) this.violation('a start was refused without a fault that deserves it', error)
    this.ended(life, 'kill')
    return false
  }

  private async compare(life: Life): Promise<void> {
    const { rates } = life.machine
    life.machine.rates = NO_FAULTS
    let problem: string | undefined
    const read = life.observe().then(async (observed) => {
      if (life.over) return
      problem = this.history.settle(observed, life.cutoff)
      const read = JSON.stringify(observed.map(({ namespace, name, fields }) => ({ namespace, name, fields })))
      const listed = JSON.stringify(await life.listed())
      if (listed !== read) problem ??= `measurements are ${listed}, the threads know ${read}`
      problem ??= life.doubled()
      problem ??= this.stateHistory.settle(await life.engine.state('simulation').list<number>())
    })
    const error = await this.settledOf(life, 'first read', read)
    life.machine.rates = rates
    if (life.over) return
    if (problem !== undefined) this.violation(`after a start: ${problem}`)
    if (error !== undefined && life.machine.faults === 0) this.violation('the first read failed', error)
  }

  private async use(life: Life): Promise<void> {
    const { random } = this
    const clients = Array.from({ length: random.between(1, 4) }, () => new Client(life).run(random.logarithmic(1, 30)))
    let followed = !random.chance(0.7)
    const following = followed
      ? undefined
      : this.follower.follow(
          life,
          () => followed,
          (ms) => this.pause(ms),
        )
    await this.settledOf(life, 'use', Promise.all(clients))
    if (!life.over && this.problem === undefined) await this.useAfterFaults(life, following !== undefined)
    followed = true
    this.follower.stop()
    if (following !== undefined && !life.over && this.problem === undefined) await this.settledOf(life, 'the end of a reader of changes', following)
  }

  private pause(ms: number): Promise<void> {
    return new Promise((resolve) => this.scheduler.at(ms, 'a reader goes on', resolve))
  }

  /** Nothing fails any more: a write and a flush succeed, and a reader of changes is given all. */
  private async useAfterFaults(life: Life, followed: boolean): Promise<void> {
    const { random } = this
    life.machine.rates = NO_FAULTS
    this.disk.capacity = Number.POSITIVE_INFINITY
    let failure: unknown
    const before = this.follower.acknowledged()
    let last: Operation | undefined
    const progress = new Client(life)
      .progress((operation) => {
        last = operation
      })
      .then((why) => {
        failure = why
      })
    await this.settledOf(life, 'a write and a flush', progress)
    if (followed && last !== undefined && last.outcome === 'acknowledged' && !life.over && this.problem === undefined && life.machine.grave === 0) {
      const operation = last
      await this.settledOf(life, 'the delivery of the last write to a reader of changes', this.follower.deliveryOf(operation))
      if (!life.over && this.problem === undefined) {
        this.follower.retain(life.cutoff)
        const problem = this.follower.missing(operation, before)
        if (problem !== undefined) this.violation(problem)
        this.follower.settle()
      }
    }
    if (failure !== undefined && life.machine.grave === 0 && !life.over)
      this.violation('no write or no flush succeeds, though nothing fails any more and no fault deserved it', failure)
    const backup = [...this.backups.values()][0]
    if (backup !== undefined && !life.over && this.problem === undefined && random.chance(0.7)) await this.restore(life, backup)
  }

  /** Restores a backup elsewhere, opens what comes of it, and compares. */
  private async restore(life: Life, backup: Backup): Promise<void> {
    const { disk } = this
    const target = `/restored-${this.scheduler.steps}`
    this.backups.delete(backup.directory)
    const fault = await this.settledOf(life, 'restore', life.engine.backup.restore(backup.directory, target))
    if (life.over || this.problem !== undefined) return
    if (fault !== undefined) return this.violation(`backup ${backup.directory} cannot be restored`, fault)
    const other = new Life(this, target, life.config, life.profile)
    this.side = other
    let problem: string | undefined
    const use = async (): Promise<void> => {
      await other.open()
      try {
        const observed = await other.observe()
        problem = backupProblem(backup, observed, await other.engine.state('simulation').list<number>(), other.cutoff)
        problem ??= other.doubled()
      } finally {
        await other.engine.close()
      }
    }
    const failure = await this.settledOf(life, 'use of a restored backup', use())
    this.side = undefined
    if (life.over) return
    if (failure !== undefined && !this.removedSince(backup, failure)) this.violation('a restored backup cannot be used', failure)
    if (problem !== undefined) this.violation(`a restored backup: ${problem}`)
    other.over = true
    other.machine.end()
    for (const file of disk.below(disk.directory(target, 'clean'))) disk.unlink(`${target}/${file}`)
  }

  /** A backup names archived objects and does not copy them: what retention or deletes have removed since is missing to what is restored from it. */
  private removedSince(backup: Backup, failure: unknown): boolean {
    const key = /there is no object "([^"]+)"/.exec(String(failure))?.[1]
    return key !== undefined && (this.removed.get(key) ?? 0) > backup.begun
  }

  private async close(life: Life): Promise<void> {
    const error = await this.settledOf(life, 'close', life.engine.close())
    if (life.over) return
    if (error !== undefined && life.machine.faults === 0) this.violation('closing failed without a fault', error)
    const left = this.disk.descriptors.filter((descriptor) => descriptor !== undefined).map(({ path }) => path)
    if (left.length > 0 && life.machine.faults === 0) this.violation(`descriptors are left open: ${left.join(' ')}`)
    this.ended(life, 'close')
  }

  /** Runs events until a promise is settled, the process has ended, or too much has happened. @returns why it was rejected. */
  private async settledOf(life: Life, what: string, promise: Promise<unknown>): Promise<unknown> {
    let settled = false
    let failure: unknown
    promise.then(
      () => {
        settled = true
      },
      (error: unknown) => {
        settled = true
        failure = error ?? new Error('rejected without a reason')
      },
    )
    const until = this.scheduler.steps + PATIENCE
    await this.scheduler.drive(() => settled || life.over || this.problem !== undefined || this.scheduler.steps > until)
    if (!settled && !life.over && this.problem === undefined && this.scheduler.steps < this.scheduler.until)
      this.violation(`${what} does not end within ${PATIENCE} events`)
    return failure
  }

  private crashed(life: Life, end: End): void {
    this.scheduler.trace?.(`CRASH by ${end}`)
    this.ended(life, end)
  }

  private ended(life: Life, end: End): void {
    if (life.over) return
    life.over = true
    life.machine.end()
    if (this.side !== undefined) {
      this.side.over = true
      this.side.machine.end()
      this.side = undefined
    }
    if (end === 'power') this.disk.powerCut()
    else this.disk.killed()
    this.follower.retain(life.cutoff)
    this.history.ended(end === 'power', life.cutoff)
    this.stateHistory.ended()
  }
}
