/**
 * The dashboards that svc brings, by Grafana's own types (@grafana/schema): each file is a typed constant that tsc checks, members that the types do not
 * have and values that no enum has included. And the alert rules, by promtool.
 */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { missing } from './service.ts'

const ROOT = join(import.meta.dirname, '../..')
const MODELS = join(ROOT, 'plugins/dashboards/models')
const RULES = join(ROOT, 'plugins/dashboards/rules/svc.yml')
const SCHEMA = join(import.meta.dirname, 'node_modules/@grafana/schema')
const skip = existsSync(SCHEMA) ? false : '@grafana/schema is not installed'
const run = promisify(execFile)

const panelTypes = { stat: 'StatPanelCfg', timeseries: 'TimeSeriesPanelCfg', table: 'TablePanelCfg' }

/** JSON has the values of enums, not their names. A panel's options and field options are those of its type. */
const TYPES = `
import type { Dashboard, FieldConfig, FieldConfigSource, Panel, RowPanel } from '@grafana/schema'
${Object.entries(panelTypes)
  .map(([type, file]) => `import type * as ${type} from '@grafana/schema/dist/esm/raw/composable/${type}/panelcfg/x/${file}_types.gen'`)
  .join('\n')}

type Plain<T> = T extends string ? \`\${T}\` : T extends (infer U)[] ? Plain<U>[] : T extends object ? { [K in keyof T]: Plain<T[K]> } : T
type Fields<F> = Omit<FieldConfigSource, 'defaults'> & { defaults: Omit<FieldConfig, 'custom'> & { custom?: F } }
type PanelOf<T, O, F> = Omit<Panel, 'type' | 'options' | 'fieldConfig'> & { type: T; options: O; fieldConfig: Fields<F> }
type Panels =
  | PanelOf<'stat', stat.Options, Record<string, never>>
  | PanelOf<'timeseries', timeseries.Options, timeseries.FieldConfig>
  | PanelOf<'table', Partial<table.Options>, Partial<table.FieldConfig>>
  | (Omit<RowPanel, 'type' | 'panels'> & { type: 'row'; panels: Panels[] })
export type Model = Plain<Omit<Dashboard, 'panels'> & { panels: Panels[] }>
`

const folder = mkdtempSync(join(tmpdir(), 'svc-grafana-'))
after(() => rmSync(folder, { recursive: true, force: true }))
if (skip === false) {
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  writeFileSync(join(folder, 'model.ts'), TYPES)
  symlinkSync(join(import.meta.dirname, 'node_modules'), join(folder, 'node_modules'))
}

/** What tsc says of models, by the names they are given: nothing when all is well. */
async function check(models: Record<string, string>): Promise<string> {
  const files = Object.entries(models).map(([name, json]) => {
    writeFileSync(join(folder, `${name}.ts`), `import type { Model } from './model.ts'\nexport const model: Model = ${json}`)
    return `${name}.ts`
  })
  const compilerOptions = {
    strict: true,
    noEmit: true,
    module: 'esnext',
    moduleResolution: 'bundler',
    target: 'esnext',
    allowImportingTsExtensions: true,
    types: [],
    skipLibCheck: true,
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
  const outcome = await run(join(ROOT, 'node_modules/.bin/tsc'), ['-p', folder]).catch((error: { stdout: string }) => error)
  return outcome.stdout.slice(0, 4000)
}

const names = readdirSync(MODELS).filter((name) => name.endsWith('.json'))
const textOf = (name: string): string => readFileSync(join(MODELS, name), 'utf8')

test("Grafana's types take each dashboard", { skip }, async () => {
  assert.ok(names.length >= 5)
  assert.equal(await check(Object.fromEntries(names.map((name) => [name.replace('.json', ''), textOf(name)]))), '')
})

for (const [what, from, to] of [
  ['a member that no panel has', '"gridPos"', '"gridPosition"'],
  ['a color mode that there is not', '"palette-classic"', '"palette-modern"'],
  ['a type of panel that is not known', '"type": "timeseries"', '"type": "timeserie"'],
  ['an option of another panel', '"graphMode": "area"', '"graphMode": "area", "showHeader": true'],
  ['a way to draw that there is not', '"drawStyle": "line"', '"drawStyle": "lines"'],
  ['a dashboard with a member of its own', '"schemaVersion": 39', '"schemaVersions": 39'],
] as const) {
  test(`Grafana's types refuse ${what}`, { skip }, async () => {
    const text = textOf('svc-health.json')
    assert.ok(text.includes(from), from)
    assert.match(await check({ wrong: text.replace(from, to) }), /wrong\.ts\(\d+,\d+\): error TS/)
  })
}

test('promtool takes the alert rules', { skip: missing('promtool') }, () => {
  const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', '--lint=all', '--lint-fatal', RULES], { encoding: 'utf8' })
  assert.equal(status, 0, `${stdout}${stderr}`)
  const alerts = readFileSync(RULES, 'utf8').match(/^ +- alert: /gm)!.length
  assert.match(stdout, new RegExp(`${alerts} rules found`))
})
