/** One tenant whose runs take long does not keep those of others from their turn. */
import { AGENT_PLANES, type AgentPlanes, type OperatedPlane } from 'svcdb/agents'
import { seeded } from 'svcdb/lib/random'
import t, { type Test } from 'tap'
import { skill } from './testing/control.ts'
import { handOut, start } from './testing/node.ts'
import { Turns } from './turns.ts'

/** A node where runs of "slow" take as long as the test says. */
async function setup(t: Test, config: Record<string, unknown>) {
  let free = (): void => {}
  const gate = new Promise<void>((resolve) => {
    free = resolve
  })
  const done: string[] = []
  const handed = handOut<AgentPlanes>(AGENT_PLANES)
  const slow = skill('slow', (context) => context.effect({ kind: 'work', args: null, mutates: false }, () => gate.then(() => null)))
  const quick = skill('quick', async () => null)
  await start(t, [slow, quick], { plugins: [handed.plugin], config: { agent_plane: { tenants: ['acme', 'umbrella'], sweep_interval_secs: 0.1, ...config } } })
  t.teardown(() => free())
  const begin = async (tenant: string, capability: string): Promise<{ run: string; settled: Promise<void> }> => {
    const { agents } = handed.service().find(tenant) as OperatedPlane
    const { run } = await agents.run({ capability, input: null, actor: 'test' })
    return { run, settled: agents.settled(run).then(() => void done.push(tenant)) }
  }
  return { begin, done, free: () => free() }
}

t.test('runs of another tenant go on while those of one hold all places that it may have, and wait in all places of the queue', async (t) => {
  const { begin, done, free } = await setup(t, { max_driving: 4, max_queued: 4 })
  const slow = await Promise.all(Array.from({ length: 20 }, () => begin('acme', 'slow')))
  const quick = await Promise.all(Array.from({ length: 3 }, () => begin('umbrella', 'quick')))
  const late = setTimeout(free, 5000)
  await Promise.all(quick.map(({ settled }) => settled))
  clearTimeout(late)
  t.same(done, ['umbrella', 'umbrella', 'umbrella'])
  free()
  await Promise.all(slow.map(({ settled }) => settled))
})

t.test('with more tenants than places one that has none gets the place that is kept', async (t) => {
  const turns = new Turns(4, 5)
  const begun: string[] = []
  const [busy, other] = [{}, {}]
  for (let i = 0; i < 4; i++) turns.take(busy, () => begun.push('busy'))
  t.same(begun, ['busy', 'busy', 'busy'])
  turns.take(other, () => begun.push('other'))
  t.same(begun, ['busy', 'busy', 'busy', 'other'])
})

const seed = Number(process.env.SVC_TURNS_SEED ?? Date.now() % 1_000_000)
t.test(`turns keep their bound, use all places for one who is alone, and starve nobody, seed ${seed}`, async (t) => {
  const random = seeded(seed)
  for (let round = 0; round < 100; round++) {
    const owners = Array.from({ length: 1 + Math.floor(random() * 4) }, (_, name) => ({ name, active: 0, left: Math.floor(random() * 20) }))
    const max = 1 + Math.floor(random() * 8)
    const turns = new Turns(max, owners.length)
    const under: (typeof owners)[number][] = []
    for (const owner of owners) {
      const wanted = owner.left
      for (let i = 0; i < wanted; i++)
        turns.take(owner, () => {
          owner.active++
          owner.left--
          under.push(owner)
        })
      if (owners.length === 1) t.equal(under.length, Math.min(max, wanted), 'one tenant alone has all places')
    }
    while (under.length > 0) {
      if (under.length > max) t.fail(`${under.length} of ${max}`)
      t.equal(turns.active, under.length)
      const [one] = under.splice(Math.floor(random() * under.length), 1)
      const others = owners.filter(({ left }) => left > 0)
      const fewest = Math.min(...others.map((owner) => owner.active - Number(owner === one)))
      one.active--
      const before = others.map((owner) => ({ owner, left: owner.left, active: owner.active }))
      turns.end(one)
      const begun = before.find(({ owner, left }) => owner.left < left)
      if (begun !== undefined) t.equal(begun.active, fewest, 'who has the fewest places is next')
    }
    t.ok(owners.every(({ left }) => left === 0))
    t.equal(turns.waiting, 0)
  }
})
