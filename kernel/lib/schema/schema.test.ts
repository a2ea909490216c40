/** Schemas and values are compared with what TypeBox makes of them, at random. */
import { readdirSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import { Type as TypeBox } from 'typebox'
import { Value } from 'typebox/value'
import { seeded } from '../random/index.ts'
import { compile, REFUSED } from './reader.ts'
import { SchemaReader } from './schema-reader.ts'
import { Type } from './type.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
t.comment(`SEED=${seed}`)
const random = seeded(seed)
const below = (n: number): number => Math.floor(random() * n)
const one = <T>(values: readonly T[]): T => values[below(values.length)]
const sometimes = <T extends object>(value: T): Partial<T> => (below(3) === 0 ? value : {})

type Build = (builders: typeof Type) => object

const NUMBERS = [0, 1, -1, 2.5, 7, 100, 1e20, Number.NaN, Number.POSITIVE_INFINITY]
const TEXTS = ['', 'a', 'b', 'abc', 'true', 'false', '1', '-7', '2.5', '1e3', '007', ' 1', 'null', 'é', '👩‍👩‍👧', 'a\nb', 'constructor']
const NAMES = ['a', 'b', 'limit', 'x-y', 'toString']

function leaf(): Build {
  const number = { ...sometimes({ minimum: one([0, 1, 5]) }), ...sometimes({ maximum: one([1, 7, 50]) }), ...sometimes({ default: one([1, 2, 3]) }) }
  Object.assign(number, sometimes({ exclusiveMinimum: one([0, 1, 2.5]) }), sometimes({ exclusiveMaximum: one([1, 7, 100]) }))
  const text = {
    ...sometimes({ minLength: one([0, 1, 2, 3]) }),
    ...sometimes({ maxLength: one([1, 2, 5]) }),
    ...sometimes({ pattern: one(['^a', '^[a-z]*$', '\\d']) }),
    ...sometimes({ default: one(TEXTS) }),
    ...(below(12) === 0 ? { format: 'date' } : {}),
  }
  const constant = one(['a', 'b', 1, 7, true])
  const unsafe = { type: one(['integer', 'string']), ...sometimes({ default: 4 }) }
  const [wholeDefault, anyDefault, enumDefault] = [sometimes({ default: true }), sometimes({ default: 3 }), below(3) === 0]
  const values = one([
    ['a', 'b'],
    ['1', 'x'],
    [1, 2],
    ['a', 1],
  ]) as string[]
  return one<Build>([
    (T) => T.Integer(number),
    (T) => T.Number({ ...number, description: 'some number' }),
    (T) => T.String(text),
    (T) => T.Boolean(wholeDefault),
    (T) => T.Null(),
    (T) => T.Literal(constant),
    (T) => T.Enum(values, enumDefault ? { default: values[0] } : {}),
    (T) => T.Any(),
    (T) => T.Unknown(anyDefault),
    (T) => T.Unsafe(unsafe),
    (T) => T.Unsafe({ type: 'string', enum: ['a', 'b'] }),
    (T) => T.Integer({ ...number, multipleOf: 2 }),
  ])
}

function schema(depth: number): Build {
  if (depth === 0 || below(4) === 0) return leaf()
  const inner = schema(depth - 1)
  const options = { ...sometimes({ minItems: 1 }), ...sometimes({ maxItems: 2 }), ...sometimes({ default: [] }) }
  switch (below(4)) {
    case 0:
      return (T) => T.Array(inner(T) as never, options)
    case 1: {
      const key = below(2) === 0 ? {} : { pattern: '^a' }
      return (T) => T.Record(T.String(key), inner(T) as never)
    }
    case 2: {
      const variants = Array.from({ length: 1 + below(3) }, leaf)
      return (T) => T.Union(variants.map((variant) => variant(T) as never))
    }
    default: {
      const members = NAMES.filter(() => below(2) === 0).map((name) => ({ name, make: schema(depth - 1), optional: below(2) === 0 }))
      const closed = { ...sometimes({ additionalProperties: one([true, false]) }), ...sometimes({ default: {} }) }
      return (T) =>
        T.Object(Object.fromEntries(members.map(({ name, make, optional }) => [name, (optional ? T.Optional(make(T) as never) : make(T)) as never])), closed)
    }
  }
}

/** Near to what a schema says, mostly. */
function valueFor(given: object): unknown {
  const { type, properties, items, anyOf, enum: values, const: constant, patternProperties } = given as Record<string, never>
  if (below(12) === 0) return one<unknown>([undefined, null, true, 1, 'a', [], {}, ['a'], '1'])
  if (constant !== undefined) return constant
  if (values !== undefined) return one(values as unknown[])
  if (anyOf !== undefined) return valueFor(one(anyOf as object[]))
  if (properties !== undefined) {
    const members = Object.entries(properties as Record<string, object>).filter(() => below(6) > 0)
    return Object.fromEntries([...members.map(([name, member]) => [name, valueFor(member)]), ...(below(8) === 0 ? [['extra', 1]] : [])])
  }
  if (patternProperties !== undefined)
    return Object.fromEntries(['a', 'ab', 'c'].map((name) => [name, valueFor(Object.values(patternProperties as object)[0])]))
  if (items !== undefined) return Array.from({ length: below(4) }, () => valueFor(items))
  if (type === 'integer' || type === 'number') return below(3) === 0 ? one(TEXTS) : one(NUMBERS)
  if (type === 'boolean') return one<unknown>([true, false, 'true', 'false', '0'])
  if (type === 'null') return null
  return one(TEXTS)
}

const shown = (value: unknown): unknown => {
  if (typeof value !== 'object' || value === null) return value
  const all = Object.entries(Object.getOwnPropertyDescriptors(value)).filter(([name]) => name !== 'length' || !Array.isArray(value))
  return all.map(([name, { value: member, enumerable }]) => [name, enumerable, shown(member)])
}

const accelerated = (schema: object): boolean => compile(schema) !== undefined

t.test('builders make what those of TypeBox make', async (t) => {
  for (let i = 0; i < 500; i++) {
    const build = schema(3)
    const [ours, theirs] = [shown(build(Type)), shown(build(TypeBox as never))]
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) return void t.same(ours, theirs)
  }
  t.pass()
})

t.test('a value is read as TypeBox reads it, or left to it', async (t) => {
  let [read, accepted] = [0, 0]
  for (let i = 0; i < 4000; i++) {
    const made = schema(3)(Type)
    const reader = compile(made)
    const convert = below(2) === 0
    for (let j = 0; j < 5; j++) {
      const value = valueFor(made)
      const theirs = Value.Default(made as never, convert ? Value.Convert(made as never, structuredClone(value)) : structuredClone(value))
      const problems = Value.Errors(made as never, theirs)
      if (problems.length === 0 && reader !== undefined) accepted++
      const ours = reader === undefined ? REFUSED : reader(structuredClone(value), convert)
      const answer = new SchemaReader(made).read(structuredClone(value), convert)
      const same = ours === REFUSED || (problems.length === 0 && isDeepStrictEqual(ours, theirs))
      if (!same || !isDeepStrictEqual(answer, { value: theirs, problems }))
        return t.fail(
          `convert ${convert}: ${JSON.stringify(made)} ${JSON.stringify(value)}: ${String(JSON.stringify(ours))}, ${JSON.stringify(theirs)} ${JSON.stringify(problems)}`,
        )
      if (ours !== REFUSED) read++
    }
  }
  t.ok(read > 0.7 * accepted, `${read} of ${accepted} that are accepted need no TypeBox`)
})

t.test('keywords that TypeBox knows are read, or leave the schema to it', async (t) => {
  const engine = join(dirname(createRequire(import.meta.url).resolve('typebox/schema')), 'engine')
  const keywords = readdirSync(engine).flatMap((file) => /^([a-z]\w*)\.mjs$/i.exec(file)?.[1] ?? [])
  const known = ['boolean', 'index', 'schema', 'ref', 'dynamicRef', 'recursiveRef', 'required', 'type', 'description']
  const read = ['additionalProperties', 'anyOf', 'const', 'enum', 'format', 'items', 'maxItems', 'maxLength', 'maximum']
  read.push('minItems', 'minLength', 'minimum', 'pattern', 'patternProperties', 'properties')
  const other = keywords.filter((keyword) => !known.includes(keyword) && !read.includes(keyword))
  t.ok(other.length > 15)
  for (const keyword of [...other, '$ref', '$dynamicRef', '$recursiveRef', '~refine', '~codec'])
    t.notOk(accelerated(Object.defineProperty(Type.Unknown(), keyword, { value: true })), keyword)
  t.ok(accelerated(Type.Unknown({ description: 'any' })))
})

t.test('members of the prototype are no members', async (t) => {
  const members = Type.Object({ a: Type.Integer() }, { additionalProperties: false })
  for (const text of ['{"a":1,"__proto__":{}}', '{"__proto__":{"a":1}}']) {
    const value = JSON.parse(text)
    t.same(new SchemaReader(members).read(value).problems, Value.Errors(members, JSON.parse(text)), text)
  }
  t.equal(
    new SchemaReader(Type.Object({ toString: Type.String() })).read({}).problems[0]?.keyword,
    Value.Errors(TypeBox.Object({ toString: TypeBox.String() }), {})[0]?.keyword,
  )
})
