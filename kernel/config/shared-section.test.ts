/** Sections whose keys belong to several plugins, such as [auth]. */
import t from 'tap'
import { Type } from '../index.ts'
import { definePlugin, type Plugin } from '../plugin.ts'
import { ConfigError, type NodeConfig, resolveConfig, type Tree } from './config.ts'

const base = { summary: 's', stability: 'beta' as const, setup() {} }
const text = (description: string) => Type.Optional(Type.String({ description }))

/** Keys in [auth] and in [limits]. */
const keys = definePlugin({
  ...base,
  id: 'keys',
  section: '',
  config: Type.Object({
    auth: Type.Object(
      {
        api_keys: Type.Array(Type.Object({ name: Type.String({ description: 'Name' }) }), { default: [], description: 'Keys' }),
        api_key_cache: Type.Integer({ default: 10, minimum: 1, description: 'Entries' }),
      },
      { description: 'Shared' },
    ),
    limits: Type.Object({ rate: Type.Number({ default: 5, minimum: 0, description: 'A second' }) }, { description: 'Shared' }),
  }),
})
/** [auth.tokens] as a section of its own. */
const tokens = definePlugin({ ...base, id: 'tokens', section: 'auth.tokens', config: Type.Object({ issuer: text('Issuer') }) })
const burst = definePlugin({
  ...base,
  id: 'burst',
  section: '',
  config: Type.Object({ limits: Type.Object({ burst: Type.Number({ default: 7, description: 'At once' }) }, { description: 'Shared' }) }),
})

const resolve = (tree: Tree, plugins: Plugin[], overrides: Record<string, string> = {}): Promise<NodeConfig> => {
  const given = new Map(Object.entries(overrides).map(([key, value]) => [key, { text: value, from: `--${key}` }]))
  return resolveConfig({ tree, file: 'svc.toml', folder: process.cwd(), overrides: given }, { plugins })
}
async function problems(tree: Tree, plugins: Plugin[], overrides?: Record<string, string>): Promise<readonly string[]> {
  try {
    await resolve(tree, plugins, overrides)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

t.test('each owner gets its keys', async (t) => {
  const tree = { auth: { exempt_paths: ['/x'], api_keys: [{ name: 'a' }], tokens: { issuer: 'i' } }, limits: { rate: 1, burst: 2 } }
  for (const plugins of [
    [keys, tokens, burst],
    [burst, tokens, keys],
  ]) {
    const config = await resolve(structuredClone(tree), plugins)
    t.same(config.auth, { exempt_paths: ['/x'] })
    t.same(config.sections.get('keys'), { auth: { api_keys: [{ name: 'a' }], api_key_cache: 10 }, limits: { rate: 1 } })
    t.same(config.sections.get('tokens'), { issuer: 'i' })
    t.same(config.sections.get('burst'), { limits: { burst: 2 } })
  }
  const empty = await resolve({}, [keys, burst])
  t.same(empty.sections.get('keys'), { auth: { api_keys: [], api_key_cache: 10 }, limits: { rate: 5 } })
})

t.test('an unknown key gets the nearest name of all owners', async (t) => {
  t.same(await problems({ auth: { api_keyz: [] } }, [keys, tokens]), ['cannot use "auth.api_keyz" in svc.toml: there is no such key; did you mean "api_keys"?'])
  t.same(await problems({ auth: { token: { issuer: 'i' } } }, [keys, tokens]), [
    'cannot use section "[auth.token]" in svc.toml: there is no such key; did you mean "tokens"?',
  ])
  t.match(await problems({ limits: { zzz: 1, yyy: 2 } }, [keys, burst]), [
    'cannot use "limits.zzz" in svc.toml: there is no such key; the keys of [limits] are rate, burst',
    /"limits.yyy"/,
  ])
  t.match(await problems({ auth: { api_keys: [{ nme: 'a' }] } }, [keys]), [
    /"auth.api_keys\[0\].nme" .*did you mean "name"/,
    /cannot find "auth.api_keys\[0\].name"/,
  ])
  t.match(await problems({ auth: { tokens: { isuer: 'i' } } }, [keys, tokens]), [/"auth.tokens.isuer" .*did you mean "issuer"/])
})

t.test('values are checked under the name they have in the file', async (t) => {
  t.match(await problems({ auth: { api_key_cache: 0, exempt_paths: ['x'] }, limits: { rate: -1 } }, [keys]), [
    /"auth.exempt_paths\[0\]" "x"/,
    /"limits.rate" -1 .*must be >= 0/,
    /"auth.api_key_cache" 0 .*must be >= 1/,
  ])
})

t.test('the key of a plugin that is not selected is refused, naming it', async (t) => {
  const owned = 'is not selected; add "mtls" to plugins or remove the section'
  t.same(await problems({ auth: { mtls: { identity: 'cn' } } }, [keys]), [
    `cannot use section "[auth.mtls]" in svc.toml: it belongs to plugin "mtls", which ${owned}`,
  ])
  t.same(await problems({ auth: { mtls: {} } }, []), [`cannot use section "[auth.mtls]" in svc.toml: it belongs to plugin "mtls", which ${owned}`])
})

t.test('two plugins with one key cannot both be selected', async (t) => {
  const rival = definePlugin({
    ...base,
    id: 'rival',
    section: '',
    config: Type.Object({ limits: Type.Object({ rate: Type.Number({ default: 1, description: 'r' }) }, { description: 'Shared' }) }),
  })
  const refusal = (id: string, key: string) => `cannot run plugin "${id}": its key "${key}" belongs to another selected plugin; select one of them`
  t.same(await problems({}, [keys, rival]), [refusal('rival', 'limits.rate')])
  t.same(await problems({}, [rival, keys]), [refusal('keys', 'limits.rate')])
  const twin = definePlugin({ ...base, id: 'twin', section: 'auth.tokens', config: Type.Object({ issuer: text('Issuer') }) })
  t.same(await problems({}, [tokens, twin]), [refusal('twin', 'auth.tokens')])
  const within = definePlugin({
    ...base,
    id: 'within',
    section: '',
    config: Type.Object({ auth: Type.Object({ tokens: text('Tokens') }, { description: 'Shared' }) }),
  })
  t.same(await problems({}, [tokens, within]), [refusal('within', 'auth.tokens')])
  t.same(await problems({}, [within, tokens]), [refusal('tokens', 'auth.tokens')])
  const greedy = definePlugin({
    ...base,
    id: 'greedy',
    section: 'auth',
    config: Type.Object({ exempt_paths: Type.Array(Type.String(), { default: [], description: 'Mine' }) }),
  })
  t.same(await problems({}, [greedy]), [refusal('greedy', 'auth.exempt_paths')], "the kernel's own key")
})

t.test('a shared section that is no table is refused, once', async (t) => {
  for (const value of [1, 'x', true, [], [{ api_keys: [] }]]) {
    const found = await problems({ auth: value, limits: value }, [keys, burst, tokens])
    t.match(found, [/"auth" .* in svc.toml: must be object/, /"limits" .* in svc.toml: must be object/], JSON.stringify(value))
  }
  t.match(await problems({ auth: { tokens: 5 } }, [tokens]), [/"auth.tokens" 5 in svc.toml: must be object/])
})

t.test('variables and flags go to the owner of their key', async (t) => {
  const config = await resolve({ limits: { rate: 1 } }, [keys, burst], { 'limits.rate': '2.5', 'limits.burst': '9', 'auth.api_key_cache': '3' })
  t.same(config.sections.get('keys'), { auth: { api_keys: [], api_key_cache: 3 }, limits: { rate: 2.5 } })
  t.same(config.sections.get('burst'), { limits: { burst: 9 } })
  t.match(await problems({}, [keys], { 'limits.rate': 'much' }), [/"limits.rate" "much" in --limits.rate: must be number/])
})

t.test('a variable reaches into a table that is there, and makes none', async (t) => {
  const override = { 'auth.tokens.issuer': 'theirs' }
  const within = definePlugin({
    ...base,
    id: 'within',
    section: '',
    config: Type.Object({
      auth: Type.Object({ tokens: Type.Optional(Type.Object({ issuer: text('Issuer') }, { description: 'Tokens' })) }, { description: 'Shared' }),
    }),
  })
  t.same((await resolve({ auth: { tokens: { issuer: 'mine' } } }, [within], override)).sections.get('within'), { auth: { tokens: { issuer: 'theirs' } } })
  t.same((await resolve({}, [within], override)).sections.get('within'), { auth: {} })
  t.same((await resolve({}, [tokens], override)).sections.get('tokens'), { issuer: 'theirs' })
})

t.test('names that every object has are no keys', async (t) => {
  t.match(await problems({ auth: { constructor: 1, toString: {} } }, [keys]), [/"auth.constructor"/, /"\[auth.toString\]"/])
  t.match(await problems({ auth: JSON.parse('{"__proto__": {"exempt_paths": ["/*"]}}') }, [keys]), [/"\[auth.__proto__\]"/])
})
