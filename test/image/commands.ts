// The programs that the shell scripts and units of the image call.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../lib/gateway'

/** words of the shell itself */
const SHELL = new Set(
  '! . : [ break case cd command continue do done echo elif else esac eval exec exit export false fi for getopts if in kill printf pwd read return set shift test then trap true umask unset until wait while {'.split(
    ' ',
  ),
)
/** the first word of a command, behind assignments */
const COMMAND =
  /(?:^|[;&|({!]\s|`|\$\(|\b(?:then|do|else|if|while|until|exec)\b)\s*(?:\w+=[^\s(]*\s+)*([a-zA-Z_./][\w./-]*)(?=[\s;|&]|$)/gm

/** Leaves out what is no command: comments, texts, arithmetic, here-documents. */
const bare = (script: string): string =>
  script
    .replace(/<<(\w+)[^\n]*\n[\s\S]*?\n\1$/gm, '')
    .replace(/(^|\s)#.*$/gm, '')
    .replace(/'[^']*'/g, '0')
    .replace(/\$\{[^}]*\}/g, '0')
    .replace(/\$\(\((?:[^)]|\)(?!\)))*\)\)/g, '0')

function programsOf(script: string): string[] {
  const own = [...script.matchAll(/^\s*(\w+) ?\(\)/gm)].map(found => found[1]!)
  return [...bare(script).matchAll(COMMAND)]
    .map(found => found[1]!)
    .filter(name => !SHELL.has(name) && !own.includes(name))
}

const unitPrograms = (unit: string): string[] =>
  [...unit.matchAll(/^Exec\w+=[-+!@]*(\S+)(?: -c '(.*)')?/gm)].flatMap(([, program, script]) => [
    program!,
    ...programsOf(script ?? ''),
  ])

/** Every program that the image's scripts and units call, by name or path. */
export function imagePrograms(): string[] {
  const texts = ['src/build/image/root', 'rootfs'].flatMap(dir =>
    readdirSync(join(root, dir), { recursive: true })
      .map(name => join(root, dir, String(name)))
      .filter(path => statSync(path).isFile())
      .map(path => [path, readFileSync(path, 'utf8')] as const),
  )
  const called = texts.flatMap(([path, text]) =>
    text.startsWith('#!/bin/sh') ? programsOf(text) : path.endsWith('.service') ? unitPrograms(text) : [],
  )
  return [...new Set(called)].sort()
}
