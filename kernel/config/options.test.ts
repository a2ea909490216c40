/** Every key of every section, by the schemas themselves: what is outside of a key's values is refused in words that name it. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { BUILTIN_ENGINES, builtinPlugins, loadEngine, loadPlugin, loadState } from '../loader.ts'
import { authSchema, engineSchema, serverSchema, stateSchema, tlsSchema } from './schema.ts'
import { isSecretSchema } from './secret.ts'
import { checkSection, type Schema } from './section.ts'
import { mountsOf } from './section-table.ts'

type Bounds = Schema & { minimum?: number; maximum?: number; exclusiveMinimum?: number; exclusiveMaximum?: number }
type Path = readonly (string | number)[]

const LONG = 'hunter2'.repeat(1000)
const NO_VALUES: Record<string, readonly unknown[]> = {
  number: ['10', '10s', '64MB', true, [10], { a: 10 }, Number.NaN, Number.POSITIVE_INFINITY, LONG],
  boolean: ['true', 1, '', [true], LONG],
  string: [12, true, ['a'], { a: 1 }],
  array: ['a', 1, { a: 1 }, LONG],
  object: ['a', [1], 1, LONG],
}

async function sections(): Promise<{ section: string; schema: Schema }[]> {
  const all: { section: string; schema: unknown }[] = [
    ...Object.entries({ server: serverSchema, tls: tlsSchema, auth: authSchema, database: engineSchema, state: stateSchema }).map(([section, schema]) => ({
      section,
      schema,
    })),
    { section: 'state', schema: (await loadState('postgres', '.')).configSchema },
  ]
  for (const name of BUILTIN_ENGINES) all.push({ section: 'database', schema: (await loadEngine(name, '.')).configSchema })
  for (const id of builtinPlugins()) all.push(...mountsOf(await loadPlugin(id, '.')))
  return all as { section: string; schema: Schema }[]
}

/** Those of lists and tables too. */
function* keysOf(schema: Schema, path: Path = []): Generator<{ path: Path; key: Bounds }> {
  for (const [name, key] of Object.entries(schema.properties ?? {})) {
    yield { path: [...path, name], key }
    yield* keysOf(key, [...path, name])
    if (key.items !== undefined) yield* keysOf(key.items, [...path, name, 0])
  }
}

function* wrongValues({ type, enum: values, minimum, maximum, exclusiveMinimum, exclusiveMaximum }: Bounds): Generator<unknown> {
  if (values !== undefined) yield* ['nonsense', '', 7.5, [values[0]], LONG]
  if (type === undefined) return
  if (values === undefined) yield* NO_VALUES[type === 'integer' ? 'number' : type] ?? []
  if (type === 'integer') yield (minimum ?? 0) + 0.5
  if (minimum !== undefined) yield* [minimum - 1, -1e300]
  if (maximum !== undefined) yield* [maximum + Math.max(1, maximum * 1e-15), 1e300]
  for (const bound of [exclusiveMinimum, exclusiveMaximum]) if (bound !== undefined) yield bound
}

function problemsOf(section: string, schema: Schema, path: Path, value: unknown): string[] {
  const problems: string[] = []
  const tree = path.reduceRight<unknown>((below, name) => (typeof name === 'number' ? [below] : { [name]: below }), value)
  checkSection(schema, tree, section, () => 'svc.toml', problems, new Set())
  return problems
}

t.test('what a key cannot be is refused in one line that names the key and says what it is for', async (t) => {
  let keys = 0
  for (const { section, schema } of await sections()) {
    for (const { path, key } of keysOf(schema)) {
      keys++
      const name = [section, ...path].join('.').replace(/\.(\d+)/g, '[$1]')
      for (const value of wrongValues(key)) {
        const found = problemsOf(section, schema, path, value).filter((line) => line.startsWith(`cannot use "${name}`))
        const what = `${name} = ${String(JSON.stringify(value)).slice(0, 40)}`
        if (found.length === 0) t.fail(`${what} is taken`)
        for (const line of found) {
          if (line.includes('\n') || line.length > 2000) t.fail(`${what}: ${line.slice(0, 500)}`)
          if (isSecretSchema(key) && line.includes('hunter2')) t.fail(`${what} is shown`)
          if (!/: (?:must be |there is no such key)/.test(line)) t.fail(`${what}: ${line}`)
        }
      }
    }
  }
  t.ok(keys > 700, `${keys} keys`)
})

t.test('bounds and defaults are values that the key may have', async (t) => {
  for (const { section, schema } of await sections()) {
    for (const { path, key } of keysOf(schema)) {
      const name = [section, ...path].join('.')
      for (const value of [key.minimum, key.maximum, key.default, ...(key.enum ?? [])]) {
        if (value === undefined) continue
        const found = problemsOf(section, schema, path, value).filter((line) => line.includes(`"${name.replace(/\.(\d+)/g, '[$1]')}"`))
        if (found.length > 0) t.fail(`${name}: ${found.join('\n')}`)
      }
      const { minimum = -Infinity, maximum = Infinity } = key
      if (minimum > maximum) t.fail(`${name}: there is no value`)
    }
  }
  t.end()
})

t.test('what svc.toml shows commented out is the default, as its head says', async (t) => {
  const defaults = new Map<string, unknown[]>()
  for (const { section, schema } of await sections())
    for (const { path, key } of keysOf(schema)) {
      const name = [section, ...path].join('.')
      defaults.set(name, [...(defaults.get(name) ?? []), key.default])
    }
  let section = ''
  let shown = 0
  for (const line of readFileSync(new URL('../../svc.toml', import.meta.url), 'utf8').split('\n')) {
    section = /^(?:# )?\[+([\w.]+)\]/.exec(line)?.[1] ?? section
    // Texts without a default, such as addresses, are examples.
    const [, key, text] = /^# (\w+) = (-?[\d.]+|true|false|"[^"]*")/.exec(line) ?? []
    const known = defaults.get(`${section}.${key}`)?.filter((value) => typeof value !== 'object' && value !== undefined && value !== '')
    if (known === undefined || known.length === 0) continue
    shown++
    t.ok(known.includes(JSON.parse(text)), `${section}.${key} = ${text}, and the default is ${known.join(', ')}`)
  }
  t.ok(shown > 30, `${shown} keys`)
})
