/** What must hold of the journals of duties.ts: all that was answered is in them once, nothing that was refused is, and they agree with the counter outside. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Random } from 'svcdb/lib/random'

/** That one effect may cost. */
export const MOST = 10
const LATE_MS = 150
const TOLD = new Set(['spend', 'try', 'note'])

export class Wrong extends Error {}

export interface Said {
  decided_by: string
  approved: boolean
  reason: string
}

/** What operators were answered. */
export interface Answered {
  /** By idempotency key. `isUnknown`: an answer was lost, so that there may be a run. */
  keys: Map<string, { capability: string; input: object; run: string | undefined; isUnknown: boolean }>
  /** By task: what was acknowledged, and what had no answer. */
  decisions: Map<string, { heard: Said | undefined; lost: Said[] }>
  /** Who by case and obligation. */
  acknowledgements: Map<string, string>
  events: Map<string, { kind: string; run: string | undefined; isTaken: boolean }>
  /** By the tag of the point: whether it was acknowledged. */
  points: Map<string, boolean>
  /** By run: who, where it was answered. */
  cancelled: Map<string, string | undefined>
}

/** Counts attempts, and says what each thing costs and whether an attempt fails. */
export class Counter {
  /** By run and effect key. */
  readonly attempts = new Map<string, number>()
  private readonly costs = new Map<string, number>()
  private readonly random: Random
  private readonly server = createServer((request, response) => {
    const { searchParams } = new URL(request.url as string, 'http://localhost')
    const attempt = `${searchParams.get('run')}/${searchParams.get('attempt')}`
    const key = searchParams.get('key') as string
    this.attempts.set(attempt, (this.attempts.get(attempt) ?? 0) + 1)
    const spent = this.costs.get(key) ?? Math.floor(this.random() * (MOST + 1))
    this.costs.set(key, spent)
    const fails = this.random() < 0.5
    // Answers come late, so that a process dies before it has them.
    setTimeout(() => response.end(JSON.stringify({ spent, fails })), this.random() * LATE_MS)
  })

  constructor(random: Random) {
    this.random = random
  }

  async listen(): Promise<string> {
    this.server.listen(0, '127.0.0.1')
    await once(this.server, 'listening')
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  close(): void {
    this.server.close()
    this.server.closeAllConnections()
  }
}

interface RecordBody {
  kind: string
  effect_key?: string
  // biome-ignore lint/suspicious/noExplicitAny: of its kind
  [member: string]: any
}

interface Run {
  status: string
  records: RecordBody[]
}

/** What `svc plane export` has written. */
export class Journals {
  readonly runs = new Map<string, Run>()
  readonly cases = new Map<string, { status: string }>()

  constructor(text: string) {
    let run: Run | undefined
    for (const line of text.split('\n')) {
      if (line === '') continue
      const row = JSON.parse(line)
      if (row.kind === 'run') {
        run = { status: row.status, records: [] }
        this.runs.set(row.run, run)
      } else if (row.kind === 'case') this.cases.set(row.case.id, row.case)
      else if (row.body !== undefined) run?.records.push(row.body)
    }
  }

  /** Those that something is still to come of. */
  get unended(): string[] {
    return [...this.runs].filter(([, { status }]) => ['running', 'suspended', 'exhausted', 'withheld', 'quarantined'].includes(status)).map(([run]) => run)
  }

  get statuses(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const { status } of this.runs.values()) counts[status] = (counts[status] ?? 0) + 1
    return counts
  }

  /** That are spent, or that effects under way may spend. */
  get tokens(): number {
    let sum = 0
    for (const { records } of this.runs.values()) {
      const open = new Map<string, number>()
      for (const { kind, effect_key: key = '', descriptor, spend } of records) {
        if (kind === 'EffectStarted' && descriptor.kind === 'spend') open.set(key, MOST)
        if (['EffectDone', 'EffectFailed', 'EffectReconciled'].includes(kind)) open.delete(key)
        sum += spend?.tokens ?? 0
      }
      for (const reserved of open.values()) sum += reserved
    }
    return sum
  }

  /** What sweeps did, by action and subject. */
  get swept(): Map<string, number> {
    const counts = new Map<string, number>()
    for (const { records } of this.runs.values())
      for (const { kind, action, subject } of records)
        if (kind === 'Swept' && action !== 'run_recovered') counts.set(`${action} ${subject}`, (counts.get(`${action} ${subject}`) ?? 0) + 1)
    return counts
  }

  /** Runs that the schedule of an hour has begun. */
  get hourly(): number {
    return [...this.runs.values()].filter(({ records }) => records[0]?.idempotency_key?.startsWith('schedule:hourly:')).length
  }

  /** Whether a run says so of the obligation. */
  isMet(name: string): boolean {
    return [...this.runs.values()].some(({ records }) => records.some((one) => one.kind === 'DeadlineTransition' && one.name === name && one.to === 'met'))
  }

  private kinds(run: string, kind: string): RecordBody[] {
    return this.runs.get(run)?.records.filter((record) => record.kind === kind) ?? []
  }

  /** @param isOver nothing is to come any more. @throws Wrong. */
  judge(answered: Answered, counter: Counter, isOver = false): void {
    this.judgeBeginnings(answered, isOver)
    this.judgeEffects(counter)
    this.judgeDecisions(answered)
    for (const [what, count] of this.swept) if (count !== 1) throw new Wrong(`${what}: swept ${count} times`)
    for (const [run, { status }] of this.runs) {
      const asked = this.kinds(run, 'RunCancelled')
      if (asked.length > 1) throw new Wrong(`${run} was cancelled ${asked.length} times`)
      if (asked.length === 1 && !answered.cancelled.has(run)) throw new Wrong(`${run} was cancelled, and nobody has asked for it`)
      const by = answered.cancelled.get(run)
      if (by !== undefined && asked.length === 1 && asked[0].actor.actor !== by)
        throw new Wrong(`${run} was cancelled by ${asked[0].actor.actor}, and not by ${by}`)
      if (status === 'cancelled' && asked.length === 0) throw new Wrong(`${run} is cancelled, and its journal does not say by whom`)
    }
    if (isOver && this.unended.length > 0) throw new Wrong(`${this.unended.length} runs have no end; the first is ${this.unended[0]}`)
  }

  private judgeBeginnings({ keys, events, points }: Answered, isOver: boolean): void {
    const byKey = new Map<string, string>()
    const byEvent = new Map<string, string>()
    const byPoint = new Map<string, string>()
    for (const [run, { records }] of this.runs) {
      const [admitted] = records
      if (admitted?.kind !== 'RunAdmitted') continue
      const { idempotency_key: key, input } = admitted
      if (key !== undefined && byKey.has(key)) throw new Wrong(`${key} has begun ${byKey.get(key)} and ${run}`)
      if (key !== undefined) byKey.set(key, run)
      const [name, list]: [string, Map<string, string>] = input.trigger_name === undefined ? [input.id, byEvent] : [input.tags.n, byPoint]
      if (name === undefined) continue
      if (list.has(name)) throw new Wrong(`${name} has begun ${list.get(name)} and ${run}`)
      list.set(name, run)
    }
    for (const [key, { run, isUnknown, capability }] of keys) {
      const found = byKey.get(key)
      if (run !== undefined && found !== run) throw new Wrong(`${key} was answered with ${run}, and has begun ${found}`)
      if (run === undefined && found !== undefined && !isUnknown) throw new Wrong(`${key} was refused, and has begun ${found}`)
      if (found !== undefined && this.kinds(found, 'RunAdmitted')[0].capability !== capability) throw new Wrong(`${key} has begun something else`)
    }
    for (const [id, { run, isTaken }] of events)
      if (isTaken && byEvent.get(id) !== run) throw new Wrong(`event ${id} was answered with ${run}, and has begun ${byEvent.get(id)}`)
    for (const id of byEvent.keys()) if (!events.has(id)) throw new Wrong(`nobody has sent event ${id}`)
    for (const n of byPoint.keys()) if (!points.has(n)) throw new Wrong(`point ${n} is none that begins a run`)
    if (isOver) for (const [n, isTaken] of points) if (isTaken && !byPoint.has(n)) throw new Wrong(`point ${n} has begun no run`)
  }

  private judgeEffects({ attempts }: Counter): void {
    for (const [attempt, count] of attempts) {
      if (count !== 1) throw new Wrong(`attempt ${attempt} was made ${count} times`)
      const [run, key] = attempt.split('/')
      if (!this.kinds(run, 'EffectStarted').some(({ effect_key }) => effect_key === key)) throw new Wrong(`attempt ${attempt} was not announced`)
    }
    for (const [run, { status, records }] of this.runs) {
      const kindOf = new Map(records.filter(({ kind }) => kind === 'EffectStarted').map((one) => [one.effect_key, JSON.stringify(one.descriptor)]))
      const done = new Set<string>()
      let failures = 0
      for (const { kind, effect_key: key, error } of records) {
        const what = kindOf.get(key) ?? ''
        if (what === '' || !TOLD.has(JSON.parse(what).kind)) continue
        if (kind === 'EffectStarted' && done.has(what)) throw new Wrong(`${run} begins ${what} again, which is done`)
        if (kind === 'EffectDone') done.add(what)
        if (kind === 'EffectDone' && !attempts.has(`${run}/${key}`)) throw new Wrong(`${run} has ${what} done, of which the counter was not told`)
        if (kind === 'EffectFailed' && error === FAILED) failures++
      }
      const [admitted] = records
      if (admitted?.capability !== 'duties.retry') continue
      if (failures > admitted.input.times) throw new Wrong(`${run} has failed ${failures} times, and may ${admitted.input.times} times`)
      if (status === 'failed' && failures !== admitted.input.times) throw new Wrong(`${run} is failed after ${failures} tries`)
    }
  }

  private judgeDecisions({ decisions }: Answered): void {
    const swept = this.swept
    for (const [run, { records }] of this.runs) {
      const asked = records.find(({ kind, descriptor }) => kind === 'EffectStarted' && descriptor.kind === 'svc.task')
      const end = asked && records.find(({ kind, effect_key }) => kind === 'EffectDone' && effect_key === asked.effect_key)
      if (asked === undefined || end === undefined) continue
      const { approved, decided_by, reason, expired } = end.output
      const said = [...decisions.values()].flatMap(({ heard, lost }) => [...(heard === undefined ? [] : [heard]), ...lost])
      const policy = asked.descriptor.args.on_expiry?.policy
      if (
        expired === true
          ? policy === 'escalate' || approved !== (policy === 'proceed')
          : !said.some((one) => one.reason === reason && one.approved === approved && one.decided_by === decided_by)
      )
        throw new Wrong(`${run} was told ${JSON.stringify(end.output)}, and nobody has said so`)
    }
    for (const [task, { heard }] of decisions)
      if (heard !== undefined && swept.has(`task_expired ${task}`)) throw new Wrong(`task ${task} was decided by ${heard.decided_by}, and has expired`)
  }
}

const FAILED = 'it is not its day'
