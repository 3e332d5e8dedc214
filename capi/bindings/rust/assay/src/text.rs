use crate::handle::{call, lend, lend_path, make, report, to_string, zeroed, Handle};
use crate::{Error, Report, Result, Trainer};
use assay_sys as sys;
use std::path::Path;
use std::ptr::{null, null_mut};

/// A token with the bytes of the text that it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Piece {
    pub id: i32,
    pub begin: i64,
    pub end: i64,
}

/// A WordPiece vocabulary with its tokenizer. Threads may share it.
#[derive(Debug)]
pub struct Vocabulary(Handle<sys::assay_text>);

impl Vocabulary {
    /// Reads a vocabulary file, the folder of a data set of text, or a checkpoint that carries one.
    pub fn open(path: impl AsRef<Path>, config: &str) -> Result<Vocabulary> {
        let path = lend_path(path.as_ref());
        make(sys::assay_text_free, None, |out, e| unsafe {
            sys::assay_text_create(path, lend(config), out, e)
        })
        .map(Vocabulary)
    }

    /// Takes the contents of a vocabulary file.
    pub fn parse(contents: &str, config: &str) -> Result<Vocabulary> {
        make(sys::assay_text_free, None, |out, e| unsafe {
            sys::assay_text_parse(lend(contents), lend(config), out, e)
        })
        .map(Vocabulary)
    }

    /// The contents of the vocabulary's file.
    pub fn contents(&self) -> Result<String> {
        let mut out = sys::assay_str { data: null(), size: 0 };
        call(|e| unsafe { sys::assay_text_vocabulary(self.0.get(), &mut out, e) })?;
        Ok(unsafe { to_string(out) })
    }

    /// Makes the trainer's checkpoints carry the vocabulary.
    pub fn attach(&self, trainer: &mut Trainer) -> Result<()> {
        call(|e| unsafe { sys::assay_text_attach(self.0.get(), trainer.get(), e) })
    }

    /// The pieces of a text, without `[CLS]` and `[SEP]`.
    pub fn tokenize(&self, text: &str) -> Result<Vec<Piece>> {
        let (vocabulary, text) = (self.0.get(), lend(text));
        let mut n = 0;
        call(|e| unsafe {
            let (ids, begin, end) = (null_mut(), null_mut(), null_mut());
            sys::assay_text_tokenize(vocabulary, text, ids, begin, end, 0, &mut n, e)
        })?;
        let (mut ids, mut begin, mut end) = (vec![0; n], vec![0; n], vec![0; n]);
        call(|e| unsafe {
            let (ids, begin, end) = (ids.as_mut_ptr(), begin.as_mut_ptr(), end.as_mut_ptr());
            sys::assay_text_tokenize(vocabulary, text, ids, begin, end, n, &mut n, e)
        })?;
        let piece = |i: usize| Piece { id: ids[i], begin: begin[i], end: end[i] };
        Ok((0..n).map(piece).collect())
    }

    /// Cuts a question and its paragraph into windows.
    pub fn question(&self, question: &str, paragraph: &str, config: &str) -> Result<Question> {
        let (question, paragraph, config) = (lend(question), lend(paragraph), lend(config));
        make(sys::assay_text_question_free, None, |out, e| unsafe {
            sys::assay_text_question_create(self.0.get(), question, paragraph, config, out, e)
        })
        .map(Question)
    }
}

/// The rows of a batch of all windows of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Windows {
    /// Of each window, padding included.
    pub length: usize,
    /// `[windows, length]`.
    pub ids: Vec<i32>,
    /// `[windows, length]`.
    pub types: Vec<i32>,
    /// Pieces of each window.
    pub lengths: Vec<i32>,
}

/// A question about a paragraph as windows of one length.
#[derive(Debug)]
pub struct Question(Handle<sys::assay_text_question>);

/// What a model proposes that chooses spans itself, as "electra_base_qa" does.
#[derive(Clone, Copy, Debug)]
pub struct Spans<'a> {
    /// How many.
    pub windows: usize,
    /// Of each window.
    pub starts: usize,
    /// Of each start.
    pub ends: usize,
    /// `[windows, starts]`.
    pub start: &'a [i32],
    /// `[windows, starts]`.
    pub start_log_prob: &'a [f32],
    /// `[windows, starts, ends]`.
    pub end: &'a [i32],
    /// `[windows, starts, ends]`.
    pub end_log_prob: &'a [f32],
    /// `[windows]`, positive: no answer; `None`: of SQuAD 1.1.
    pub class_logit: Option<&'a [f32]>,
}

impl Question {
    fn size(&self) -> Result<(usize, usize)> {
        let (mut windows, mut length) = (0, 0);
        call(|e| unsafe {
            sys::assay_text_question_size(self.0.get(), &mut windows, &mut length, e)
        })?;
        Ok((windows as usize, length as usize))
    }

    /// All windows.
    pub fn windows(&self) -> Result<Windows> {
        let (windows, length) = self.size()?;
        let (mut ids, mut types) = (vec![0; windows * length], vec![0; windows * length]);
        let mut lengths = vec![0; windows];
        for (w, n) in lengths.iter_mut().enumerate() {
            let row = w * length..(w + 1) * length;
            let (ids, types) = (ids[row.clone()].as_mut_ptr(), types[row].as_mut_ptr());
            call(|e| unsafe {
                sys::assay_text_question_read(self.0.get(), w as i64, ids, types, n, e)
            })?;
        }
        Ok(Windows { length, ids, types, lengths })
    }

    /// The texts that a model's scores mean: of each position of all windows as the answer's start and
    /// end.
    pub fn answer(&self, start: &[f32], end: &[f32], config: &str) -> Result<Report> {
        if start.len() != end.len() {
            return Err(Error::invalid(format!("{} starts and {} ends", start.len(), end.len())));
        }
        let (starts, ends, n) = (start.as_ptr(), end.as_ptr(), start.len());
        report(|out, e| unsafe {
            sys::assay_text_question_answer(self.0.get(), starts, ends, n, lend(config), out, e)
        })
    }

    /// [`Question::answer`] of spans.
    pub fn answer_spans(&self, spans: &Spans, config: &str) -> Result<Report> {
        let starts = spans.windows.checked_mul(spans.starts);
        let ends = starts.and_then(|n| n.checked_mul(spans.ends));
        let is = |n: usize, expected: Option<usize>| Some(n) == expected;
        if !is(spans.start.len(), starts)
            || !is(spans.start_log_prob.len(), starts)
            || !is(spans.end.len(), ends)
            || !is(spans.end_log_prob.len(), ends)
            || spans.class_logit.map_or(false, |c| c.len() != spans.windows)
        {
            let message = "a list of the spans has another length than its sizes say";
            return Err(Error::invalid(message.to_string()));
        }
        let mut c = zeroed!(assay_text_spans);
        c.windows = spans.windows as i64;
        c.starts = spans.starts as i64;
        c.ends = spans.ends as i64;
        c.start = spans.start.as_ptr();
        c.start_log_prob = spans.start_log_prob.as_ptr();
        c.end = spans.end.as_ptr();
        c.end_log_prob = spans.end_log_prob.as_ptr();
        c.class_logit = spans.class_logit.map_or(null(), |c| c.as_ptr());
        report(|out, e| unsafe {
            sys::assay_text_question_answer_spans(self.0.get(), &c, lend(config), out, e)
        })
    }
}

/// A file of SQuAD, of which each question may be answered.
#[derive(Debug)]
pub struct Squad(Handle<sys::assay_text_squad>);

impl Squad {
    /// Reads a file, plain or gzip.
    pub fn open(path: impl AsRef<Path>) -> Result<Squad> {
        let path = lend_path(path.as_ref());
        make(sys::assay_text_squad_free, None, |out, e| unsafe {
            sys::assay_text_squad_open(path, out, e)
        })
        .map(Squad)
    }

    /// How many questions it has, and 1 or 2: its version.
    pub fn size(&self) -> Result<(i64, i32)> {
        let (mut questions, mut version) = (0, 0);
        call(|e| unsafe {
            sys::assay_text_squad_size(self.0.get(), &mut questions, &mut version, e)
        })?;
        Ok((questions, version))
    }

    /// One question about its paragraph.
    pub fn question(&self, index: i64, vocabulary: &Vocabulary, config: &str) -> Result<Question> {
        let (squad, vocabulary) = (self.0.get(), vocabulary.0.get());
        make(sys::assay_text_question_free, None, |out, e| unsafe {
            sys::assay_text_squad_question(squad, index, vocabulary, lend(config), out, e)
        })
        .map(Question)
    }

    /// Keeps the answer to a question.
    pub fn answer(&mut self, index: i64, answer: &str) -> Result<()> {
        call(|e| unsafe { sys::assay_text_squad_answer(self.0.get(), index, lend(answer), e) })
    }

    /// Writes the answers given, in the official form of predictions.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = lend_path(path.as_ref());
        call(|e| unsafe { sys::assay_text_squad_save(self.0.get(), path, e) })
    }
}

/// Scores predictions as the official scripts do.
pub fn score_squad(file: impl AsRef<Path>, predictions: impl AsRef<Path>) -> Result<Report> {
    let (file, predictions) = (lend_path(file.as_ref()), lend_path(predictions.as_ref()));
    report(|out, e| unsafe { sys::assay_text_score(file, predictions, out, e) })
}
