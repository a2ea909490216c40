/** The SQL functions of plugins on one thread, by name, with what they stand for. */
import type { SqlConstant, SqlExpressionBody } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type FunctionSpec, isNative } from '../../threads/function-spec.ts'
import type { Parse } from '../ast.ts'
import { exportOf } from './load.ts'
import { makeTemplate, nativeExpression, type Template } from './template.ts'

/** Templates kept; their constants come from statements, so their number must be bounded. */
const KEPT = 256

export class PluginFunctions {
  private readonly byName: ReadonlyMap<string, FunctionSpec>
  private readonly templates = new Map<string, Template>()

  constructor(specs: readonly FunctionSpec[] = []) {
    this.byName = new Map(specs.map((spec) => [spec.name, spec]))
  }

  get(name: string): FunctionSpec | undefined {
    return this.byName.get(name)
  }

  /** Those that a module computes. */
  get native(): FunctionSpec[] {
    return [...this.byName.values()].filter(isNative)
  }

  async template(spec: FunctionSpec, constants: readonly SqlConstant[], parse: Parse): Promise<Template> {
    const key = `${spec.name} ${constants.map((value) => `${typeof value} ${value}`).join('\0')}`
    let template = this.templates.get(key)
    if (template === undefined) {
      template = await makeTemplate(spec, await expressionOf(spec, constants), constants, parse)
      if (this.templates.size >= KEPT) this.templates.clear()
      this.templates.set(key, template)
    }
    return template
  }
}

async function expressionOf(spec: FunctionSpec, constants: readonly SqlConstant[]): Promise<string> {
  if (spec.expression !== undefined) return spec.expression
  if (isNative(spec)) return nativeExpression(spec)
  const text = ((await exportOf(spec)) as unknown as SqlExpressionBody)(constants)
  if (typeof text !== 'string') throw new SvcError('DATABASE_ERROR', `cannot call ${spec.name}: its module in plugin "${spec.plugin}" made no expression`)
  return text
}
