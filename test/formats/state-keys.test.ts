/** The pages of docs/formats/ that list keys of the state store have each kind of key that the code of their plugin has. */
import t from 'tap'
import { filesBelow, read } from '../support/tree.ts'

/** Of a page its plugin, and what begins in its code as keys do and is none: ids, names of tools, media types. */
const PAGES: Record<string, { plugin: string; beside?: readonly string[] }> = {
  'analytics-models.md': { plugin: 'analytics' },
  'api-keys.md': { plugin: 'api_keys' },
  'namespaces.md': { plugin: 'namespaces' },
  'plane-records.md': { plugin: 'agent_plane', beside: ['event', 'evidence', 'svc', 'trigger'] },
  'rollups.md': { plugin: 'rollups' },
  'webhooks.md': { plugin: 'webhooks' },
}
const NO_KEYS = ['application', 'svcdb']

for (const [page, { plugin, beside = [] }] of Object.entries(PAGES))
  t.test(page, async (t) => {
    const listed = new Set([...read(`docs/formats/${page}`).matchAll(/`([a-z][a-z_-]*)\//g)].map(([, name]) => name))
    const files = filesBelow(`plugins/${plugin}`, /(?<!\.test|\.bench|\.fuzz)\.ts$/).filter((file) => !/\/test(ing|kit)\b/.test(file))
    const found = new Map(files.flatMap((file) => [...read(file).matchAll(/[`'"]([a-z][a-z_-]*)\//g)].map(([, name]) => [name, file])))
    t.ok([...found.keys()].filter((name) => listed.has(name)).length > 1, 'the code has some')
    t.same(
      [...found].filter(([name]) => !listed.has(name) && !NO_KEYS.includes(name) && !beside.includes(name)),
      [],
    )
  })
