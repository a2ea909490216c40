/** What a plugin of somebody else's brings: commands, flags, environment variables, error codes, protocols, audit actions. */
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { resolveConfig } from '../config/config.ts'
import { declareErrors, definePlugin, SvcError, Type } from '../index.ts'
import { boot } from '../testkit/index.ts'
import { run } from './cli.ts'

async function svc(args: string[], env: Record<string, string> = {}): Promise<{ code: number; out: string; err: string }> {
  const text = { out: '', err: '' }
  const code = await run(args, { env, out: (s) => void (text.out += s), err: (s) => void (text.err += s), stopSignal: Promise.resolve('SIGTERM') })
  return { code, ...text }
}

const KERNEL = new URL('../index.ts', import.meta.url).href
const SOURCE = `
  import { declareErrors, definePlugin, settableBy, Type } from '${KERNEL}'
  const errors = declareErrors({ PUMP_STUCK: { http: 409, grpc: 9, text: 'The pump does not turn' } })
  export default definePlugin({
    id: 'pump', summary: 'Pumps', stability: 'beta', errors, protocols: ['pump_wire'], auditActions: ['pump_start'], provides: ['water'],
    config: Type.Object({ pressure: Type.Integer({ ...settableBy({ flag: 'pump-pressure', env: ['PUMP_PRESSURE'] }), default: 1, description: 'Bar' }) }),
    commands: [{
      name: 'prime-pump', summary: 'Primes it', flags: { slowly: { description: 'Not at once', boolean: true } },
      async run(call) { call.out(JSON.stringify([(await call.config()).section, call.flags.slowly ?? null, call.args])); return 0 },
    }],
    setup(svc) { svc.provide('water', 1) },
  })`

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'svc-third-party-'))
  writeFileSync(join(path, 'pump.ts'), SOURCE)
  writeFileSync(join(path, 'svc.toml'), 'plugins = ["./pump.ts"]\n[server]\nhttp_addr = "127.0.0.1:0"\n')
  return join(path, 'svc.toml')
}

t.test('its commands, flags and variables work where a config file selects it', async (t) => {
  const file = folder()
  const primed = await svc(['prime-pump', '--slowly', '--config', file, 'now'], { PUMP_PRESSURE: '4' })
  t.same(primed, { code: 0, out: '[{"pressure":4},"true",["now"]]', err: '' })
  t.match(await svc(['-c', file, 'prime-pump']), { code: 0, out: '[{"pressure":1},null,[]]' })
  t.match(await svc(['prime-pump'], { SVC_CONFIG: file }), { code: 0, out: '[{"pressure":1},null,[]]' })
  t.match(await svc(['prime-pump']), { code: 1, err: /cannot run command "prime-pump": there is no such command; .* needs the --config that selects it$/m })
  t.notMatch((await svc(['prime-well', '-c', file])).err, /--config/)
  t.match((await svc(['check', '--config', file, '--pump-pressure', '7'], { PUMP_PRESSURE: '4' })).out, /^pressure = 7\b/m, 'the flag wins')
  t.match((await svc(['check', `--config=${file}`], { PUMP_PRESSURE: '4' })).out, /^pressure = 4\b/m)
  t.match(await svc(['check', '-c', file], { PUMP_PRESSURE: 'high' }), { code: 1, err: /cannot use "pump.pressure" "high" in PUMP_PRESSURE/ })
  t.match(await svc(['check', '--pump-pressure', '7']), { code: 1, err: /cannot use flag "--pump-pressure": there is no such flag/ })
  t.match((await svc(['help', '-c', file])).out, /prime-pump {3}Primes it[\s\S]*--pump-pressure VALUE +pump\.pressure \(PUMP_PRESSURE\)/)
  t.match((await svc(['help'])).out, /--grpc-bind VALUE +grpc\.addr \(SVC_GRPC_BIND, SVC_GRPC_ADDR\)/)
  t.match(await svc(['check', '--grpc-bind', '127.0.0.1:1', '-c', file]), { code: 0 }, 'the flag of a built-in plugin that is not selected')
})

t.test('svc plugins lists all that it brings', async (t) => {
  const { code, out } = await svc(['plugins', '--config', folder()])
  t.equal(code, 0)
  const own = out.slice(out.indexOf('\npump (beta, from ./pump.ts): Pumps\n'))
  for (const line of [
    'pump.pressure = 1: Bar',
    'command: svc prime-pump: Primes it',
    'set by: --pump-pressure, PUMP_PRESSURE: pump.pressure',
    'error: PUMP_STUCK: HTTP 409, gRPC 9',
    'protocols: pump_wire',
    'audit actions: pump_start',
    'provides: water',
  ])
    t.ok(own.includes(`\n  ${line}\n`), line)
})

t.test('names of two plugins, or of the kernel, are refused', async (t) => {
  const errors = declareErrors({ VALVE_SHUT: { http: 503, grpc: 14, text: 'The valve is shut' } })
  const made = (id: string, more: object) => definePlugin({ id, summary: 's', stability: 'beta', setup() {}, ...more })
  const problems = async (...plugins: ReturnType<typeof made>[]) =>
    resolveConfig({ tree: {}, file: 'svc.toml', folder: '.', overrides: new Map() }, { plugins }).then(
      () => [],
      (error) => error.problems,
    )
  const command = { name: 'turn', summary: 's', run: async () => 0 }
  const brings = { errors, auditActions: ['turned'], commands: [command] }
  t.same(await problems(made('a', brings)), [])
  t.same(await problems(made('a', brings), made('b', brings)), [
    'cannot run plugin "b": its command "turn" belongs to plugin "a"; rename it, or select one of them',
    'cannot run plugin "b": its error code "VALVE_SHUT" belongs to plugin "a"; rename it, or select one of them',
    'cannot run plugin "b": its audit action "turned" belongs to plugin "a"; rename it, or select one of them',
  ])
  t.match(await problems(made('a', { auditActions: ['login_failure'], commands: [{ ...command, name: 'serve' }] })), [
    /command "serve" belongs to the kernel/,
    /audit action "login_failure" belongs to the kernel/,
  ])
  t.throws(() => declareErrors({ NOT_FOUND: { http: 404, grpc: 5, text: '' } }), /cannot declare error code "NOT_FOUND": it is one of the kernel/)
  t.throws(() => declareErrors({ gone: { http: 410, grpc: 5, text: '' } }), /upper case/)
  t.throws(() => declareErrors({ FINE: { http: 200, grpc: 5, text: '' } }), /the HTTP status 200/)
  t.throws(() => declareErrors({ FINE: { http: 400, grpc: 0, text: '' } }), /the gRPC status 0/)
  t.throws(() => made('a', { protocols: ['Not This'] }), /the name "Not This"/)
  t.throws(() => made('a', { commands: [{ ...command, name: 'Turn it' }] }), /the command "Turn it"/)
})

t.test('its error codes have their status on every wire', async (t) => {
  const errors = declareErrors({
    TANK_EMPTY: { http: 410, grpc: 5, retryAfter: 9, text: 'Nothing is left' },
    TANK_ON_FIRE: { http: 500, grpc: 13, redact: true, text: 'Run' },
  })
  const tank = definePlugin({
    id: 'tank',
    summary: 's',
    stability: 'beta',
    errors,
    config: Type.Object({}),
    setup(svc) {
      svc.http.get('/tank', async () => {
        throw new SvcError(errors.TANK_EMPTY, 'cannot pour: nothing is left')
      })
      svc.http.get('/fire', async () => {
        throw new SvcError(errors.TANK_ON_FIRE, 'the password is hunter2')
      })
    },
  })
  const node = await boot({ plugins: [tank] })
  t.teardown(() => node.stop())
  const empty = await node.inject('/tank')
  t.match(empty, { statusCode: 410, headers: { 'retry-after': '9' } })
  t.same(empty.json(), { error: 'cannot pour: nothing is left', code: 'TANK_EMPTY' })
  t.same((await node.inject('/fire')).json(), { error: 'TANK_ON_FIRE: an internal error occurred', code: 'TANK_ON_FIRE' })
  t.equal(new SvcError(errors.TANK_EMPTY, 'x').kind.grpc, 5)
})
