/** What can be told from a policy's syntax tree: which parts of the context it looks at, and how deep it is. */
import { CONTEXT_ATTRIBUTES } from './request.ts'

/**
 * Levels of a policy's conditions: each operator is one, and so is each link of a chain of && or ||. Cedar evaluates by recursion on a stack
 * that cannot grow, and one overflow (from some 360 levels on) would leave the engine unusable, for all policies.
 */
export const MAX_LEVELS = 150
/** Braces or brackets of the tree's JSON for one level. */
const NESTING_PER_LEVEL = 2

const EVERYTHING = Object.keys(CONTEXT_ATTRIBUTES)

interface PolicyShape {
  /** Attributes of the context that it may look at. */
  contextUse: Set<string>
  tooDeep: boolean
}

/** @param policy as Cedar's JSON format for policies. */
export function shapeOf(policy: { conditions: readonly unknown[] }): PolicyShape {
  const shape: PolicyShape = { contextUse: new Set(), tooDeep: false }
  for (const condition of policy.conditions) visit(condition, policy.conditions.length * NESTING_PER_LEVEL, shape)
  return shape
}

function visit(node: unknown, depth: number, shape: PolicyShape): void {
  if (typeof node !== 'object' || node === null) return
  if (depth > MAX_LEVELS * NESTING_PER_LEVEL) {
    shape.tooDeep = true
    return
  }
  const named = attributeOf(node as Node)
  if (named !== undefined) {
    shape.contextUse.add(named)
    return
  }
  // In any other place the whole context may be looked at.
  if ((node as Node).Var === 'context') for (const name of EVERYTHING) shape.contextUse.add(name)
  for (const member of Object.values(node)) visit(member, depth + 1, shape)
}

interface Node {
  Var?: unknown
  '.'?: Access
  has?: Access
}

interface Access {
  left?: Node
  attr?: unknown
}

/** The attribute, for `context.name` and `context has name`; undefined for everything else. */
function attributeOf(node: Node): string | undefined {
  const access = node['.'] ?? node.has
  if (access?.left?.Var !== 'context' || Object.keys(node).length !== 1) return undefined
  const name = Array.isArray(access.attr) ? access.attr[0] : access.attr
  return typeof name === 'string' && EVERYTHING.includes(name) ? name : undefined
}
