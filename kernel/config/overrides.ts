/** Keys that the environment and the command line can set. A key's schema says which; the command line wins, and both win over the file. */
import type { Plugin } from '../plugin.ts'
import { authSchema, engineSchema, serverSchema, tlsSchema } from './schema.ts'
import type { Schema } from './section.ts'
import { mountsOf } from './section-table.ts'

export interface Settable {
  /** Without dashes; it takes a value. */
  flag?: string
  /** Environment variables, the first that is set counts. */
  env: readonly string[]
  /** The file must have the section: a secret that nothing would use must not go unnoticed. */
  needsSection?: true
}

export interface Override extends Settable {
  /** Of the section and the key. */
  section: string
  key: string
}

/** For the schema of a key: `Type.String({ ...settableBy({ flag: 'grpc-bind', env: ['SVC_GRPC_BIND'] }), default: '127.0.0.1:4243' })`. */
export function settableBy(settable: Settable | undefined): { settable?: Settable } {
  return settable === undefined ? {} : { settable }
}

function overridesIn(section: string, schema: Schema): Override[] {
  return Object.entries(schema.properties ?? {}).flatMap(([key, member]) => [
    ...(member.settable === undefined ? [] : [{ ...member.settable, section, key }]),
    ...overridesIn(`${section}.${key}`, member),
  ])
}

/** Of the kernel's own sections; [database] has its `data_dir` here, since every engine that keeps files has that key. */
export const KERNEL_OVERRIDES: readonly Override[] = [
  ...overridesIn('server', serverSchema as Schema),
  { section: 'database', key: 'data_dir', flag: 'data-dir', env: ['SVC_DATA_DIR'] },
  ...overridesIn('database', engineSchema as Schema),
  ...overridesIn('tls', tlsSchema as Schema),
  ...overridesIn('auth', authSchema as Schema),
]

export function overridesOf(plugin: Plugin): Override[] {
  return mountsOf(plugin).flatMap(({ section, schema }) => overridesIn(section, schema))
}

/** As texts name it: `grpc.addr (SVC_GRPC_BIND)`. */
export function settingOf({ section, key, env }: Override): string {
  return `${section}.${key} (${env.join(', ')})`
}

export type Given = Map<string, { text: string; from: string }>

/** What flags and variables set, by dotted key. */
export function givenBy(
  overrides: readonly Override[],
  flags: Readonly<Record<string, string | undefined>>,
  env: Readonly<Record<string, string | undefined>>,
): Given {
  const given: Given = new Map()
  for (const { section, key, flag, env: variables } of overrides) {
    const variable = variables.find((name) => env[name] !== undefined && env[name] !== '')
    if (flag !== undefined && flags[flag] !== undefined) given.set(`${section}.${key}`, { text: flags[flag], from: `--${flag}` })
    else if (variable !== undefined) given.set(`${section}.${key}`, { text: env[variable] as string, from: variable })
  }
  return given
}
