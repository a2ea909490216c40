import t from 'tap'
import { type Candidate, moves, type Placed, takers } from './placement.ts'

const WORKS = Array.from({ length: 20 }, (_, i) => `p${i % 3}/w${i}`)
const candidates = (...ids: number[]): Candidate[] => ids.map((node_id) => ({ node_id, wants: new Set(WORKS) }))
const seed = Number(process.env.SVC_SEED ?? Math.floor(Math.random() * 2 ** 31))

function random(seed: number): () => number {
  let a = seed
  return () => {
    a = (a + 0x6d2b79f5) | 0
    let x = Math.imul(a ^ (a >>> 15), 1 | a)
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32
  }
}

t.test('what nobody has goes to who has least, and all who look agree', (t) => {
  const all: Placed[] = WORKS.map((work, i) => ({ work, owner: i < 4 ? 1 : undefined }))
  const found = takers(all, candidates(1, 2, 3, 4))
  t.equal(found.size, 16)
  const counts = [1, 2, 3, 4].map((id) => [...found.values()].filter((taker) => taker === id).length + (id === 1 ? 4 : 0))
  t.same(counts, [5, 5, 5, 5])
  t.same(found, takers(all.toReversed(), candidates(4, 3, 2, 1)))
  t.end()
})

t.test('what is reserved goes to whom it is reserved for, if that one can', (t) => {
  t.same([...takers([{ work: 'p0/w0', to: 2 }], candidates(1, 2))], [['p0/w0', 2]])
  t.same([...takers([{ work: 'p0/w0', to: 9 }], candidates(1))], [['p0/w0', 1]])
  t.equal(takers([{ work: 'other/w' }], candidates(1, 2)).size, 0, 'nobody wants it')
  t.end()
})

t.test(`moves even out, move nothing twice, and stop (seed ${seed})`, (t) => {
  const next = random(seed)
  for (let round = 0; round < 300; round++) {
    const nodes: Candidate[] = Array.from({ length: 1 + Math.floor(next() * 6) }, (_, i) => {
      return { node_id: i + 1, wants: new Set(WORKS.filter(() => next() < 0.7)) }
    })
    const all: Placed[] = WORKS.flatMap((work) => {
      const able = nodes.filter(({ wants }) => wants.has(work))
      return able.length === 0 ? [] : [{ work, owner: able[Math.floor(next() ** 3 * able.length)].node_id }]
    })
    const plan = moves(all, nodes)
    const owner = new Map(all.map((each) => [each.work, each.owner as number]))
    for (const { work, from, to } of plan) {
      if (owner.get(work) !== from || !nodes[to - 1].wants.has(work)) return t.fail(`round ${round}: ${work} ${from} → ${to}`)
      owner.set(work, to)
    }
    if (new Set(plan.map(({ work }) => work)).size !== plan.length) return t.fail(`round ${round}: something moves twice`)
    const load = (id: number) => [...owner.values()].filter((each) => each === id).length
    for (const [work, from] of owner)
      for (const { node_id, wants } of nodes)
        if (wants.has(work) && load(from) - load(node_id) > 1) return t.fail(`round ${round}: node ${node_id} could have had ${work} of ${from}`)
    const level = moves(
      all.map(({ work }) => ({ work, owner: owner.get(work) })),
      nodes,
    )
    if (level.length > 0) return t.fail(`round ${round}: it is not at rest`)
  }
  t.pass()
  t.end()
})
