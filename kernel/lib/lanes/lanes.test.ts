/** Every bound holds, and everybody has a turn. */
import { seeded } from 'svcdb/lib/random'
import t from 'tap'
import { type Candidate, Lanes, type Slot } from './index.ts'

const seed = Number(process.env.SVC_LANES_SEED ?? Date.now() % 1_000_000)
t.test(`lanes keep every bound and starve nobody, seed ${seed}`, async (t) => {
  const random = seeded(seed)
  for (let round = 0; round < 50; round++) {
    const limits = { total: 2 + Math.floor(random() * 12), group: 2 + Math.floor(random() * 6) }
    const lanes = new Lanes<Candidate & { left: number; sent: number }>(limits)
    const all = Array.from({ length: 30 }, () => ({
      group: `n${Math.floor(random() * 4)}`,
      slow: random() < 0.5,
      failures: Math.floor(random() * 3),
      left: Math.floor(random() * 10),
      sent: 0,
    }))
    const total = all.reduce((sum, { left }) => sum + left, 0)
    const flying: Slot[] = []
    const pump = () =>
      lanes.pump((candidate, slot) => {
        if (candidate.left === 0) return false
        candidate.left--
        candidate.sent++
        flying.push(slot)
        return true
      })
    for (const one of all) lanes.ready(one)
    pump()
    for (let guard = 0; flying.length > 0; guard++) {
      if (guard > 10_000) throw new Error('it does not end')
      t.equal(lanes.inFlight, flying.length)
      if (flying.length > limits.total) t.fail('too many')
      for (const group of ['n0', 'n1', 'n2', 'n3']) if (flying.filter((slot) => slot.group === group).length > limits.group) t.fail(group)
      // What was slow before it began leaves half of the room, rounded up, to others.
      const [slot] = flying.splice(Math.floor(random() * flying.length), 1)
      if (random() < 0.1) lanes.markSlow(slot)
      lanes.end(slot)
      pump()
    }
    t.equal(
      all.reduce((sum, { sent }) => sum + sent, 0),
      total,
    )
  }
})
