/** Receivers that are dead, slow or many delay nobody else, of the same tenant and of others; once they take events again, they miss nothing. */
import type { StateStore, WebhookAttempt } from 'svcdb'
import { seeded } from 'svcdb/lib/random'
import { ManualClock } from 'svcdb/testkit'
import t from 'tap'
import { type Controlled, controlled, skill } from '../testing/control.ts'
import { PushSender } from './sender.ts'
import { parkedPushes } from './store.ts'

const TAKEN: WebhookAttempt = { result: 'taken', reason: '' }
const TIMEOUT: WebhookAttempt = { result: 'failed', reason: 'there was no answer within 10 s' }
const REFUSED: WebhookAttempt = { result: 'failed', reason: 'it answered 500' }
const TIMEOUT_MS = 10_000

type Behaviour = 'good' | 'late' | 'fails' | 'hangs'

class World {
  readonly clock: ManualClock
  readonly tenants: Controlled[]
  readonly told = new Map<string, string[]>()
  /** By URL. */
  readonly behaviour = new Map<string, Behaviour>()
  readonly flying: { url: string; tenant: string }[] = []
  readonly most = { tenant: 0, receiver: 0, all: 0 }
  private readonly sender: PushSender
  private stopped = false

  constructor(tenants: Controlled[], random: () => number) {
    this.tenants = tenants
    this.clock = new ManualClock(tenants[0].clock.now)
    this.sender = new PushSender({
      send: async ({ url }, { source, subject, type }) => {
        const one = { url, tenant: source }
        this.flying.push(one)
        const count = (same: (other: typeof one) => boolean) => this.flying.filter(same).length
        this.most.tenant = Math.max(
          this.most.tenant,
          count(({ tenant }) => tenant === source),
        )
        this.most.receiver = Math.max(
          this.most.receiver,
          count((other) => other.url === url),
        )
        this.most.all = Math.max(this.most.all, this.flying.length)
        const attempt = await this.answer(url)
        this.flying.splice(this.flying.indexOf(one), 1)
        if (attempt.result === 'taken') this.told.set(`${url} ${subject}`, [...(this.told.get(`${url} ${subject}`) ?? []), type.replace('io.svc.run.', '')])
        return attempt
      },
      now: this.clock.now,
      after: this.clock.after,
      random,
      told: () => {},
    })
  }

  /** As the schedule does, for so long. */
  async advance(ms: number): Promise<void> {
    this.stopped = false
    const again = async (): Promise<void> => {
      if (this.stopped) return
      await this.sender.run(this.tenants.map(({ state }, i) => ({ tenant: `t${i}`, state })))
      this.clock.after(1000, () => void again())
    }
    this.again ??= again()
    await this.clock.advance(ms)
  }

  private again: Promise<void> | undefined

  async register(tenant: number, url: string): Promise<string> {
    const { driver, run, clock } = this.tenants[tenant]
    clock.now = this.clock.now()
    const { run: id } = await run(driver({ checkReceiver: async () => {} }), 'nothing', { push: [{ id: 'one', url }] })
    return `${url} ${id}`
  }

  private async answer(url: string): Promise<WebhookAttempt> {
    const behaviour = this.behaviour.get(url) ?? 'good'
    const ms = behaviour === 'hangs' ? TIMEOUT_MS : behaviour === 'late' ? 2000 : 5
    await new Promise<void>((resolve) => void this.clock.after(ms, resolve))
    return behaviour === 'hangs' ? TIMEOUT : behaviour === 'fails' ? REFUSED : TAKEN
  }
}

async function world(tenants: number, random: () => number = () => 0): Promise<World> {
  const nothing = skill('nothing', async () => null)
  return new World(await Promise.all(Array.from({ length: tenants }, () => controlled([nothing]))), random)
}

const ALL = ['admitted', 'completed']
const left = (state: StateStore) => state.list({ prefix: 'push/' })

t.test('a receiver that never answers, with very many registrations', async (t) => {
  const it = await world(2)
  it.behaviour.set('https://dead', 'hangs')
  for (let i = 0; i < 300; i++) await it.register(0, 'https://dead')
  const good = [await it.register(0, 'https://good'), await it.register(1, 'https://good')]
  await it.advance(3000)
  t.same(
    good.map((each) => it.told.get(each)),
    [ALL, ALL],
  )
  await it.advance(60_000)
  const later = [await it.register(0, 'https://good'), await it.register(1, 'https://good')]
  await it.advance(2000)
  t.same(
    later.map((each) => it.told.get(each)),
    [ALL, ALL],
    'and while it is known to fail',
  )
  it.behaviour.set('https://dead', 'good')
  await it.advance(300_000)
  t.equal(it.told.size, 304)
  t.same(await left(it.tenants[0].state), [])
})

t.test('very many receivers that never answer', async (t) => {
  const it = await world(2)
  for (let i = 0; i < 300; i++) {
    it.behaviour.set(`https://dead-${i}`, 'hangs')
    await it.register(0, `https://dead-${i}`)
  }
  const known = await it.register(1, 'https://good')
  await it.advance(3000)
  t.same(it.told.get(known), ALL, 'another tenant')
  t.ok(it.most.tenant <= 8, `${it.most.tenant} at one time`)
})

t.test('very many that are put off, where each commit waits for a disk', async (t) => {
  const it = await world(2)
  const [{ state }] = it.tenants
  const synced = async () => new Promise<void>((resolve) => void it.clock.after(10, resolve))
  const slow: StateStore = {
    get: (key) => state.get(key),
    list: (range) => state.list(range),
    // Those that are under way share a sync, as in the store of a node.
    transaction: (body) => state.transaction(body).then(async (given) => synced().then(() => given)),
  }
  it.behaviour.set('https://dead', 'fails')
  for (let i = 0; i < 1000; i++) await it.register(0, 'https://dead')
  it.tenants[0] = { ...it.tenants[0], state: slow }
  await it.advance(1500)
  const good = await it.register(1, 'https://good')
  await it.advance(2500)
  t.same(it.told.get(good), ALL, 'another tenant does not wait for a sync of each')
})

t.test('one that stays dead is parked, registration by registration, and the next one is tried', async (t) => {
  const it = await world(1)
  it.behaviour.set('https://dead', 'fails')
  for (let i = 0; i < 20; i++) await it.register(0, 'https://dead')
  await it.advance(4 * 3_600_000)
  const { state } = it.tenants[0]
  const parked = await parkedPushes(state, 100)
  t.equal(parked.length, 20)
  t.match(parked[0].row, { attempts: 32, last_error: 'it answered 500' })
  it.behaviour.set('https://dead', 'good')
  const next = await it.register(0, 'https://dead')
  await it.advance(300_000)
  t.same(it.told.get(next), ALL)
})

const SEED = Number(process.env.SVC_SEED ?? Date.now() % 1_000_000)
t.test(`receivers that come and go: seed ${SEED}`, async (t) => {
  const random = seeded(SEED)
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const it = await world(3, random)
  const urls = Array.from({ length: 12 }, (_, i) => `https://r${i}`)
  const steady = new Set(urls.slice(0, 4))
  const registered: string[] = []
  for (let step = 0; step < 30; step++) {
    for (const url of urls) if (!steady.has(url) && random() < 0.3) it.behaviour.set(url, pick(['good', 'late', 'fails', 'hangs'] as const))
    const recent: string[] = []
    for (let i = 0; i < 10; i++) {
      const url = pick(urls)
      const name = await it.register(Math.floor(random() * 3), url)
      registered.push(name)
      if (steady.has(url)) recent.push(name)
    }
    await it.advance(5000 + Math.floor(random() * 20_000))
    for (const name of recent) t.same(it.told.get(name), ALL, `${name} had to wait for none`)
  }
  for (const url of urls) it.behaviour.set(url, 'good')
  await it.advance(600_000)
  for (const name of registered) t.same(it.told.get(name), ALL, `${name} has missed nothing`)
  for (const { state } of it.tenants) t.same(await left(state), [])
  t.ok(it.most.receiver <= 12 && it.most.tenant <= 16 && it.most.all <= 64, JSON.stringify(it.most))
})
