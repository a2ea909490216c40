import { temporaryFolder } from 'svcdb/testkit'
import t from 'tap'
import { Random } from '../../conformance/random.ts'
import { GateHarness } from './testing/gate.ts'

let harness: GateHarness
t.before(async () => {
  harness = await GateHarness.open(temporaryFolder(t))
})
t.after(() => harness.close())

const STATEMENTS = 150

for (const hostile of [true, false]) {
  t.test(hostile ? "no statement reads what is not the caller's, whatever it calls things" : 'statements answer what DuckDB answers', async (t) => {
    // Where DuckDB resolves a strange name in another way is for the fuzzer to find.
    const seed = hostile ? Math.floor(Math.random() * 2 ** 31) : Number(process.env.SVC_SEED ?? 20261122)
    t.comment(`seed ${seed}`)
    const random = new Random(seed)
    let answered = 0
    for (let i = 0; i < STATEMENTS; i++) {
      const { sql, outcome, problem } = await harness.tryOne(random, hostile)
      if (outcome === 'answered') answered++
      if (problem !== undefined) t.fail(`seed ${seed}, statement ${i}: ${problem}\n${sql}`)
    }
    t.ok(answered > STATEMENTS / 10, `${answered} of ${STATEMENTS} were answered`)
  })
}

t.test('the harness finds what a hole would let through', async (t) => {
  const open = harness as unknown as { host: { relation(request: { measurement: string; columns: string[] }): string } }
  const { relation } = open.host
  t.teardown(() => {
    open.host.relation = relation
  })
  open.host.relation = ({ columns }) => `SELECT ${columns.map((name) => `"${name}"`).join(', ')} FROM __theirs_cpu`
  const { outcome, problem } = await harness.try('SELECT v FROM cpu', true)
  t.equal(outcome, 'refused')
  t.match(problem, /the guard had to refuse it: scan SEQ_SCAN memory\.main\.__theirs_cpu/)
})
