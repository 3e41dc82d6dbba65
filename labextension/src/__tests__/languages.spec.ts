// The panel in another language: what JupyterLab's own translation manager gives, and what of the
// server's answers is translated.

import { TranslationManager } from '@jupyterlab/translation';
import { afterEach, describe, expect, it } from 'vitest';

import {
  inLanguage,
  language,
  loadTranslation,
  translationLoaded,
  trans,
  translatesSentences
} from '../language/translation';
import { bodyOf, failureOf } from '../rest/failure';
import { withSentences } from '../rest/sentences';

const PACK = {
  jupyter_tpu: {
    '': {
      domain: 'jupyter_tpu',
      language: 'zh-CN',
      plural_forms: 'nplurals=1; plural=0;',
      pluralForms: 'nplurals=1; plural=0;'
    },
    'Delete %1?': ['删除 %1？'],
    '%1 host': ['%1 台主机', '%1 台主机'],
    '{number} hosts': ['{number} 台主机'],
    'Creating %1': ['正在创建 %1'],
    'Install JAX': ['安装 JAX'],
    '{tpu} has no host {number}.': ['{tpu} 没有主机 {number}。'],
    'Try again later.': ['请稍后重试。']
  }
};

async function use(code: string, pack: object): Promise<void> {
  const manager = new TranslationManager('', undefined, undefined, {
    fetch: async () => ({ data: pack, message: '' })
  } as never);
  await manager.fetch(code);
  loadTranslation(manager);
  await translationLoaded();
}

afterEach(() => use('en', {}));

describe('the panel in Chinese', () => {
  it('translates its own strings, also with a number', async () => {
    await use('zh_CN', PACK);
    expect(language).toBe('zh-CN');
    expect(trans.__('Delete %1?', 'my-tpu')).toBe('删除 my-tpu？');
    expect(trans._n('%1 host', '%1 hosts', 4)).toBe('4 台主机');
    expect(trans.__('Not in the catalogue')).toBe('Not in the catalogue');
  });

  it('translates what the server says, and leaves the rest', async () => {
    await use('zh_CN', PACK);
    const answer = bodyOf<Record<string, unknown>>(
      JSON.stringify({
        name: 'Install JAX',
        meaning: '8 chips · 4 hosts',
        problem: {
          message: 'my-tpu has no host 3. Try again later.',
          hint: 'Unknown.'
        },
        steps: [{ title: 'Install JAX', state: 'running' }],
        log: ['creating my-tpu'],
        lines: [{ text: 'Try again later.' }],
        content: { title: 'Try again later.' }
      })
    );
    expect(answer).toEqual({
      name: 'Install JAX',
      meaning: '8 chips · 4 台主机',
      problem: { message: 'my-tpu 没有主机 3。请稍后重试。', hint: 'Unknown.' },
      steps: [{ title: '安装 JAX', state: 'running' }],
      log: ['正在创建 my-tpu'],
      lines: [{ text: 'Try again later.' }],
      content: { title: 'Try again later.' }
    });
    const problem = {
      message: 'x has no host 1.',
      reason: 'INVALID',
      hint: ''
    };
    const failure = failureOf(400, JSON.stringify(problem));
    expect(failure.message).toBe('x 没有主机 1。');
  });

  it('keeps names that are written from right to left in their place', async () => {
    await use('zh_CN', PACK);
    expect(inLanguage('שלום has no host 3.')).toBe(
      '\u2068שלום\u2069 没有主机 3。'
    );
    expect(trans.__('Delete %1?', 'שלום')).toBe('删除 \u2068שלום\u2069？');
  });

  it('is English without a catalogue', async () => {
    await use('fr_FR', {});
    const problem = { message: 'my-tpu has no host 3.' };
    expect(withSentences(problem)).toBe(problem);
    expect(trans.__('Delete %1?', 'my-tpu')).toBe('Delete my-tpu?');
    expect(translatesSentences()).toBe(false);
  });
});
