import t from 'tap'
import { sourcesOf } from './sources.ts'

t.test('the tables that a statement reads', async (t) => {
  const cases: Record<string, string[]> = {
    'SELECT _time, a FROM cpu WHERE _time >= $1 AND _time < $2': ['cpu'],
    'select a from "CPU.load" c join mem m on c.t = m.t': ['cpu.load', 'mem'],
    'SELECT a, cpu, b FROM mem, disk d, (SELECT x FROM net, io) n WHERE cpu IN (1, load)': ['disk', 'io', 'mem', 'net'],
    'FROM main.cpu SELECT *': ['cpu'],
    'WITH w AS (SELECT * FROM cpu) SELECT * FROM w LEFT JOIN LATERAL (SELECT 1 FROM mem) ON true': ['cpu', 'mem', 'w'],
    "SELECT 'from x', a -- from y\n FROM /* from z */ mem": ['mem'],
    'SELECT extract(hour FROM _time), max(a, b) FROM cpu GROUP BY 1, load ORDER BY a, b': ['_time', 'cpu'],
    'SELECT 1 FROM a UNION ALL SELECT c, d FROM ((b))': ['a', 'b'],
    'SELECT a FROM cpu USING SAMPLE 10': ['cpu'],
    'SELECT 1 FROM a JOIN b ON greatest(a.x, y) = z': ['a', 'b'],
    'SELECT "a""b" FROM "x""y"': ['x"y'],
  }
  for (const [query, wanted] of Object.entries(cases)) t.same([...sourcesOf(query)].sort(), wanted, query)
})
