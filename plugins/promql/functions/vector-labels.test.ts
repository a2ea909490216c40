import t from 'tap'
import { apply, argument, buckets, lines, Recorder, vector } from '../testing/calls.ts'

const replace = async (labels: Record<string, string>, ...args: string[]): Promise<string[]> =>
  lines(await apply('label_replace', [vector([labels, 1]), ...args.map((arg) => argument(arg))]))

t.test('label_replace fills in groups', async (t) => {
  const labels = { __name__: 'm', src: 'host-7.example' }
  t.same(await replace(labels, 'dst', '$2/$1', 'src', '(\\w+)-(\\d+)\\..*'), ['{__name__=m,dst=7/host,src=host-7.example} 1'])
  t.same(await replace(labels, 'dst', `\${name}x`, 'src', '(?P<name>\\w+)-.*'), ['{__name__=m,dst=hostx,src=host-7.example} 1'])
  t.same(await replace(labels, 'dst', '$1x', 'src', '(\\w+)-.*'), ['{__name__=m,src=host-7.example} 1'], 'the group "1x" there is not')
  t.same(await replace(labels, 'dst', `$$1 $ \${1`, 'src', '(\\w+)-.*'), [`{__name__=m,dst=$1 $ \${1,src=host-7.example} 1`])
  t.same(await replace(labels, 'dst', 'new', 'src', 'host'), ['{__name__=m,src=host-7.example} 1'], 'the whole value has to match')
  t.same(await replace(labels, 'src', '', 'src', '.*'), ['{__name__=m} 1'], 'an empty value takes the label away')
  t.same(await replace(labels, 'dst', 'none', 'other', ''), ['{__name__=m,dst=none,src=host-7.example} 1'], 'a label there is not is empty')
})

t.test('what cannot be replaced is refused', async (t) => {
  const refused = (...args: string[]): Promise<unknown> => replace({ a: '1' }, ...args)
  await t.rejects(refused('dst', '', 'a', '('), { message: 'invalid regular expression in label_replace(): (' })
  await t.rejects(refused('', '', 'a', ''), { message: 'invalid destination label name in label_replace(): ' })
})

t.test('series that came to have the same labels become one', async (t) => {
  const args = ['a', '', 'a', '.*'].map((arg) => argument(arg))
  const apart = vector([{ a: '1' }, 1, undefined], [{ a: '2' }, undefined, buckets([2])], [{ b: '1' }, 5, 6])
  t.same(lines(await apply('label_replace', [apart, ...args])), ['{} 1 h2', '{b=1} 5 6'])
  const together = vector([{ a: '1' }, 1], [{ a: '2' }, 2])
  await t.rejects(apply('label_replace', [together, ...args]), { message: 'vector cannot contain metrics with the same labelset' })
})

t.test('a metric name that is set stays', async (t) => {
  const values = { ...vector([{ a: '1' }, 1]), dropName: Uint8Array.of(1) }
  const args = ['__name__', 'n', 'a', '1'].map((arg) => argument(arg))
  t.same(lines(await apply('label_replace', [values, ...args])), ['{__name__=n,a=1} 1'])
  const other = ['b', 'n', 'a', '1'].map((arg) => argument(arg))
  t.same(lines(await apply('label_replace', [values, ...other])), ['-{a=1,b=n} 1'])
})

t.test('label_join', async (t) => {
  const values = vector([{ a: '1', b: '2' }, 1])
  const join = async (...args: string[]): Promise<string[]> => lines(await apply('label_join', [values, ...args.map((arg) => argument(arg))]))
  t.same(await join('dst', '-', 'a', 'none', 'b'), ['{a=1,b=2,dst=1--2} 1'])
  t.same(await join('a', '-'), ['{b=2} 1'])
  await t.rejects(join('', '-', 'a'), { message: 'invalid destination label name in label_join(): ' })
  await t.rejects(join('dst', '-', ''), { message: 'invalid source label name in label_join(): ' })
})

t.test('sort by value: NaN last, histograms left out', async (t) => {
  const values = vector([{ a: '1' }, 2], [{ a: '2' }, NaN], [{ a: '3' }, -1], [{ a: '4' }, buckets([1])], [{ a: '5' }, 10])
  t.same(lines(await apply('sort', [values])), ['{a=3} -1', '{a=1} 2', '{a=5} 10', '{a=2} NaN'])
  t.same(lines(await apply('sort_desc', [values])), ['{a=5} 10', '{a=1} 2', '{a=3} -1', '{a=2} NaN'])
})

t.test('sort by label: numbers in names count as numbers', async (t) => {
  const names = ['node10', 'node9', 'node', 'node9b', 'edge', '']
  const values = vector(...names.map((name, i): [Record<string, string>, number] => [{ n: name, i: String(i) }, i]))
  const sorted = lines(await apply('sort_by_label', [values, argument('n')])).map((line) => line.split(' ')[1])
  t.same(sorted, ['5', '4', '2', '1', '3', '0'])
  const falling = lines(await apply('sort_by_label_desc', [values, argument('n')])).map((line) => line.split(' ')[1])
  t.same(falling, ['0', '3', '1', '2', '4', '5'])
  t.same(lines(await apply('sort_by_label', [vector([{ a: 'x', b: '2' }, 1], [{ a: 'x', b: '1' }, 2]), argument('a')])), ['{a=x,b=1} 2', '{a=x,b=2} 1'])
})

t.test('sorting a range query is pointless', async (t) => {
  for (const fn of ['sort', 'sort_desc', 'sort_by_label']) {
    const annotations = new Recorder()
    const args = fn === 'sort_by_label' ? [argument('a')] : []
    const sorted = lines(await apply(fn, [vector([{ a: '2' }, 2, 1], [{ a: '1' }, 1, 3]), ...args], { annotations }))
    t.same(sorted, ['{a=2} 2 1', '{a=1} 1 3'])
    t.same(annotations.texts, ['warning: sort is ineffective for range queries since results are always ordered by labels @0'])
  }
})

t.test('an expression that would never end is interrupted', async (t) => {
  await t.rejects(replace({ a: 'a'.repeat(40) }, 'dst', '$1', 'a', '((a+)+)b'), { code: 'BAD_REQUEST', message: /it takes too long/ })
})

t.test('labels that grow count as memory', async (t) => {
  const long = vector([{ a: 'x'.repeat(1000) }, 1])
  const tooMany = { name: 'ExecutionError', message: 'query processing would load too many samples into memory in query execution' }
  const doubled = ['a', '$1$1', 'a', '(.*)'].map((arg) => argument(arg))
  const twice = ['a', '', 'a', 'a'].map((arg) => argument(arg))
  t.equal(lines(await apply('label_replace', [long, ...doubled], { budgetBytes: 2020 }))[0].length, '{a=} 1'.length + 2000)
  await t.rejects(apply('label_replace', [long, ...doubled], { budgetBytes: 2019 }), tooMany)
  await t.rejects(apply('label_join', [long, ...twice], { budgetBytes: 1999 }), tooMany)
})

t.test('a column of labels counts as memory, for labels of labels hold it', async (t) => {
  const many = vector(...Array.from({ length: 1000 }, (_, i) => [{ a: String(i) }, 1] as const))
  const args = ['b', 'none', 'none', 'none'].map((arg) => argument(arg))
  t.equal(lines(await apply('label_replace', [many, ...args], { budgetBytes: 4000 })).length, 1000)
  const tooMany = { name: 'ExecutionError', message: 'query processing would load too many samples into memory in query execution' }
  await t.rejects(apply('label_replace', [many, ...args], { budgetBytes: 3999 }), tooMany)
})

t.test('many series are not relabelled behind the back of who cancels', async (t) => {
  const many = vector(...Array.from({ length: 50_000 }, (_, i) => [{ a: String(i) }, 1] as const))
  const args = ['b', `\${1}-\${2}`, 'a', '(.)(.*)'].map((arg) => argument(arg))
  const controller = new AbortController()
  const result = apply('label_replace', [many, ...args], { signal: controller.signal })
  setImmediate(() => controller.abort())
  await t.rejects(result, { name: 'QueryStoppedError' })
})

t.test('labels that no series has cost nothing', async (t) => {
  const many = vector(...Array.from({ length: 2000 }, (_, i) => [{ a: String(i) }, 1] as const))
  const args = ['b', '', ...Array.from({ length: 2000 }, (_, i) => `none${i}`), 'a', 'a'].map((arg) => argument(arg))
  const before = process.memoryUsage().arrayBuffers
  const joined = lines(await apply('label_join', [many, ...args]))
  t.equal(joined[7], '{a=7,b=77} 1')
  t.ok(process.memoryUsage().arrayBuffers - before < 8e6, 'no column of 8 KB for each of them')
})
