import t from 'tap'
import { checkJsonBounds } from './bounds.ts'

const check = (text: string, depth: number, members: number) => checkJsonBounds(Buffer.from(text), { depth, members })

t.test('depth and members are counted as the parser would see them', async (t) => {
  check('{"a":[1,2,{"b":"c"}]}', 3, 6)
  t.throws(() => check('{"a":[1,2,{"b":"c"}]}', 2, 100), { code: 'BAD_REQUEST', message: /nested more than 2 deep; .*server.max_body_depth/ })
  t.throws(() => check('[1,2,3,4]', 2, 3), { code: 'BAD_REQUEST', message: /more than 3 members; .*server.max_body_members/ })
  check('[1,2,3]', 1, 3)
})

t.test('what is in text does not count', async (t) => {
  check('{"[[[,,,":"{{{\\"[[,,\\\\","b":"\\\\"}', 1, 2)
  t.throws(() => check('["\\\\",[[1]]]', 2, 100), { code: 'BAD_REQUEST' }, 'a backslash that is escaped ends no quote')
})

t.test('what is no JSON is the parser to refuse', async () => {
  for (const text of ['', '"', '"\\', ']]]]', '{"a', ',']) check(text, 1, 1)
})
