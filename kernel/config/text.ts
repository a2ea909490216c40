/** What `svc check` and `svc plugins` print. */

import { errorKind } from '../lib/errors/index.ts'
import { isLoopback, parseAddress } from '../lib/network/index.ts'
import { withoutPasswords } from '../lib/text/index.ts'
import { builtinPlugins, loadPlugin } from '../loader.ts'
import type { Plugin } from '../plugin.ts'
import type { ConfigSource, NodeConfig } from './config.ts'
import { overridesOf } from './overrides.ts'
import { mountsOf } from './section-table.ts'

/** What a config would run, with every key and where its value comes from; secrets print as [redacted], users and passwords of URLs as `…`. */
export function describe(config: NodeConfig): string {
  const lines = [
    `config: ${config.file}`,
    `storage engine: ${config.storage?.engine ?? 'none (no selected plugin uses one)'}`,
    ...(config.storage?.module.explain?.(config.storage.config) ?? []),
    ...(config.state?.module.explain?.(config.state.config) ?? []),
    `plugins: ${config.plugins.map((p) => p.id).join(', ') || 'none'}`,
  ]
  // Several may have a part of one section.
  const sections = new Map<string, object>()
  const add = (name: string, section: unknown) => sections.set(name, Array.isArray(section) ? section : { ...sections.get(name), ...(section as object) })
  add('server', config.server)
  if (config.tls !== undefined) add('tls', config.tls)
  if (config.storage !== undefined) add('database', config.storage.config)
  if (config.state !== undefined) add('state', config.state.config)
  add('auth', config.auth)
  for (const plugin of config.plugins) {
    const own = config.sections.get(plugin.id)
    for (const { section, member } of mountsOf(plugin)) add(section, member === undefined ? own : (own as Record<string, unknown>)[member])
  }
  for (const [name, section] of sections) {
    const members = Object.entries(section)
    if (members.length > 0)
      lines.push('', `[${name}]`, ...members.map(([key, value]) => `${key} = ${withoutPasswords(JSON.stringify(value))} # ${config.from(`${name}.${key}`)}`))
  }
  return `${lines.join('\n')}\n\n`
}

/** Keys that were written by another name. */
export function notes({ renamed, file }: NodeConfig): string[] {
  return renamed.map(({ alias, key }) => `"${alias}" in ${file} is "${key}"`)
}

/** What will not work though nothing is wrong: no plugin at all, or plugins that are selected in vain. */
export function idle({ plugins, off, file }: NodeConfig): string[] {
  if (plugins.length === 0 && off.length === 0)
    return ['no plugin is selected, so that nothing can be written or asked; name some by plugins in a file, and the file by --config']
  if (off.length === 0) return []
  const sections = off.map((section) => `[${section}]`).join(', ')
  return [`plugins are selected that do nothing, for ${file} has no section of theirs: ${sections}; an empty one is enough where no key is needed`]
}

/** @param open whether nothing authenticates. */
export function warnings({ listeners, tls }: NodeConfig, open: boolean): string[] {
  return listeners.flatMap(({ key, address }) => {
    if (isLoopback(parseAddress(address).host)) return []
    const found = open ? [`${key} "${address}" is open to the world and no selected plugin authenticates; listen on 127.0.0.1 or add one`] : []
    if (tls === undefined) found.push(`${key} "${address}" is open to the world without TLS; add a [tls] section or listen on 127.0.0.1`)
    return found
  })
}

/** The built-in plugins, and those of others that a config names. @throws Error naming one that cannot be loaded. */
export async function listPlugins({ tree, folder }: Pick<ConfigSource, 'tree' | 'folder'>): Promise<string> {
  const builtin = builtinPlugins()
  const named = Array.isArray(tree.plugins) ? tree.plugins.filter((name): name is string => typeof name === 'string') : []
  const lines: string[] = []
  for (const name of new Set([...builtin, ...named])) {
    const plugin = await loadPlugin(name, folder)
    const from = builtin.includes(name) ? '' : `, from ${name}`
    lines.push(`${plugin.id} (${plugin.stability}${from}): ${plugin.summary}`)
    for (const { section, schema } of mountsOf(plugin))
      for (const [key, { default: value, description }] of Object.entries(schema.properties ?? {}))
        lines.push(`  ${section}.${key} = ${JSON.stringify(value) ?? '(none)'}: ${description}`)
    lines.push(...broughtBy(plugin).map((line) => `  ${line}`))
    lines.push('')
  }
  return lines.length === 0 ? 'there are no built-in plugins\n' : lines.join('\n')
}

/** What a plugin brings beside its keys, and what it needs. */
function broughtBy(plugin: Plugin): string[] {
  const { commands = [], errors = {}, provides = [], requires = [], protocols = [], capabilities = [], auditActions = [], api } = plugin
  const list = (what: string, names: readonly string[]): string[] => (names.length === 0 ? [] : [`${what}: ${names.join(', ')}`])
  return [
    ...commands.map(({ name, summary }) => `command: svc ${name}: ${summary}`),
    ...overridesOf(plugin).map(
      (override) =>
        `set by: ${[...(override.flag === undefined ? [] : [`--${override.flag}`]), ...override.env].join(', ')}: ${override.section}.${override.key}`,
    ),
    ...Object.keys(errors).map((code) => `error: ${code}: HTTP ${errorKind(code)?.http}, gRPC ${errorKind(code)?.grpc}`),
    ...(api === undefined ? [] : [`plugin API: ${api}`]),
    ...list('protocols', protocols),
    ...list('audit actions', auditActions),
    ...list('provides', provides),
    ...list('requires', requires),
    ...list('storage', capabilities),
  ]
}
