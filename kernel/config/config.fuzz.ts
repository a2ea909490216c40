/**
 * Random config files: each is either refused with a ConfigError or accepted with every kernel key within its schema; nothing else may come out.
 * node kernel/config/config.fuzz.ts [seconds] [seed]
 */
import { ok } from 'node:assert'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Type } from 'typebox'
import { Value } from 'typebox/value'
import { type Random, seeded } from '../lib/random/index.ts'
import { definePlugin } from '../plugin.ts'
import { ConfigError, readConfig, resolveConfig } from './config.ts'
import { serverSchema } from './schema.ts'
import { Secret } from './secret.ts'

const WORD = 'hunter2-is-the-secret'
const SECTIONS = ['server', 'tls', 'database', 'fuzzed', 'fuzzed.nested', 'auth.keys', '__proto__', 'constructor', 'toString', 'plugins', 'sql']
const KEYS = [
  ...Object.keys(serverSchema.properties),
  'name',
  'list',
  'nested',
  'password',
  '__proto__',
  'constructor',
  'hasOwnProperty',
  'cert',
  'key',
  '"a.b"',
  '""',
]
// biome-ignore-start lint/suspicious/noTemplateCurlyInString: placeholders of the config language
const VALUES = [
  '1',
  '-1',
  '0',
  '1.5',
  'nan',
  'inf',
  'true',
  '""',
  '"text"',
  '"info"',
  '"json"',
  '"${HOME_OF_FUZZ}"',
  '"${"',
  '"$${X}"',
  '[]',
  '["a"]',
  '[1, "a"]',
  '{}',
  '{ a = 1 }',
  '[[1]]',
  '1979-05-27T07:32:00Z',
  '07:32:00',
  '9223372036854775807',
  `"${WORD}"`,
  '',
  '"',
]
// biome-ignore-end lint/suspicious/noTemplateCurlyInString: placeholders of the config language

const fuzzed = definePlugin({
  id: 'fuzzed',
  summary: 'For the fuzzer',
  stability: 'experimental',
  config: Type.Object({
    name: Type.String({ default: 'x', description: 'A name' }),
    list: Type.Array(Type.Integer(), { default: [], description: 'A list' }),
    nested: Type.Object({ key: Type.Integer({ default: 1, description: 'A key' }) }, { default: {}, description: 'A table' }),
    password: Type.Optional(Secret.schema({ description: 'A secret', minLength: 4 })),
  }),
  setup() {},
})

function randomToml(random: Random): string {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]
  const lines: string[] = random() < 0.2 ? [`${pick(KEYS)} = ${pick(VALUES)}`] : []
  for (let s = Math.floor(random() * 3); s >= 0; s--) {
    lines.push(random() < 0.1 ? `[[${pick(SECTIONS)}]]` : `[${pick(SECTIONS)}]`)
    for (let k = Math.floor(random() * 3); k > 0; k--) lines.push(`${pick(KEYS)} = ${pick(VALUES)}`)
  }
  return lines.join('\n')
}

/** @returns how many files were accepted and refused. */
export async function fuzz(seed: number, goesOn: (files: number) => boolean): Promise<{ accepted: number; refused: number }> {
  const random = seeded(seed)
  const file = join(mkdtempSync(join(tmpdir(), 'svc-fuzz-')), 'svc.toml')
  const counts = { accepted: 0, refused: 0 }
  while (goesOn(counts.accepted + counts.refused)) {
    const toml = randomToml(random)
    writeFileSync(file, toml)
    try {
      const config = await resolveConfig(readConfig({ config: file }, {}), { plugins: [fuzzed] })
      ok(Value.Check(serverSchema, config.server), toml)
      ok(!JSON.stringify(config.sections.get('fuzzed')).includes('"password":"hunter'), toml)
      counts.accepted++
    } catch (error) {
      if (!(error instanceof ConfigError)) throw new Error(`seed ${seed}: ${(error as Error).message} for:\n${toml}`, { cause: error })
      ok(
        error.problems.every((line) => line.startsWith('cannot ') && !line.includes('\n')),
        error.message,
      )
      counts.refused++
    }
    ok(!('polluted' in {}) && Object.keys(Object.prototype).length === 0, toml)
  }
  return counts
}

if (import.meta.main) {
  const until = Date.now() + Number(process.argv[2] ?? 10) * 1000
  const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)
  console.log({ seed, ...(await fuzz(seed, () => Date.now() < until)) })
}
