//! A conversation as tokens that only ever grows at its end, each token with its author.
//!
//! Invariants: a token that is in the transcript stays where it is; tokens of the policy are the ids
//! that were given, never decoded and encoded again; control tokens come from the family's template
//! or from the policy, never from the text of a user, a tool or a data set; only tokens of the policy
//! are trained on.

use rocstar_record::message::{Message, Role, ToolSpec};

use crate::{
    error::Error,
    family::{END_OF_TURN, Family, START_OF_TURN, Segment, Turn},
    template::{Piece, Shield},
    tokenizer::{Special, Tokenizer},
};

/// Who wrote a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Provenance {
    /// The model that is trained: sampled, or the target of supervised training.
    Policy,
    /// A tool's answer.
    Tool,
    /// The family's format: openings, ends and forced beginnings of turns.
    Template,
    /// The opening of the conversation: instructions and tools.
    System,
    /// The user.
    User,
    /// An assistant's turn that was given, as an example or as history.
    Given,
}

/// A conversation as tokens.
#[derive(Debug, Clone)]
pub struct Transcript {
    tokenizer: Tokenizer,
    family: Family,
    shield: Shield,
    end_of_turn: u32,
    tokens: Vec<u32>,
    provenance: Vec<Provenance>,
    /// Where the policy's tokens of the assistant's open turn start; `None` between turns.
    open_from: Option<usize>,
}

impl Transcript {
    /// Begins with a prompt: instructions, tools, questions, and perhaps earlier turns, which count
    /// as given.
    ///
    /// # Errors
    /// Where the family can't write the conversation as its template does, or the tokenizer lacks
    /// the family's tokens.
    pub fn new(
        tokenizer: &Tokenizer,
        family: &Family,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Self, Error> {
        Self::begin(tokenizer, family, messages, tools, Provenance::Given)
    }

    /// A finished conversation to learn from: what the assistant wrote, its calls and the ends of
    /// its turns are the policy's.
    ///
    /// # Errors
    /// As [`Self::new`]; and [`Error::Forgotten`] where the template would drop part of a turn once a
    /// later one is there, so that a model would be trained on what it never sees.
    pub fn from_messages(
        tokenizer: &Tokenizer,
        family: &Family,
        messages: &[Message],
        tools: &[ToolSpec],
    ) -> Result<Self, Error> {
        Self::begin(tokenizer, family, messages, tools, Provenance::Policy)
    }

    fn begin(
        tokenizer: &Tokenizer,
        family: &Family,
        messages: &[Message],
        tools: &[ToolSpec],
        author: Provenance,
    ) -> Result<Self, Error> {
        let control_token = |token| {
            let id = tokenizer.token_id(token).filter(|&id| tokenizer.is_special(id));
            id.ok_or_else(|| Error::MissingToken { token, family: family.name() })
        };
        control_token(START_OF_TURN)?;
        let end_of_turn = control_token(END_OF_TURN)?;
        let mut transcript = Self {
            tokenizer: tokenizer.clone(),
            family: family.clone(),
            shield: Shield::new(tokenizer),
            end_of_turn,
            tokens: Vec::new(),
            provenance: Vec::new(),
            open_from: None,
        };
        let (messages, tools) = transcript.shield.hide_all(messages, tools);
        let (head, turns) = family.conversation(&messages, &tools)?;
        let mut run = vec![Segment { provenance: Provenance::System, text: head }];
        for turn in turns {
            match turn {
                Turn::Given(segments) => run.extend(segments),
                Turn::Assistant { is_forgotten: true, message, .. }
                    if author == Provenance::Policy =>
                {
                    return Err(Error::Forgotten { message, family: family.name() });
                }
                Turn::Assistant { opening, body, .. } => {
                    run.push(template(opening));
                    if author == Provenance::Policy {
                        transcript.append(&std::mem::take(&mut run))?;
                        transcript.append(&[Segment { provenance: author, text: body }])?;
                        transcript.push(end_of_turn, author);
                        run.push(template("\n".to_owned()));
                    } else {
                        run.push(Segment { provenance: author, text: body });
                        run.push(template(format!("{END_OF_TURN}\n")));
                    }
                }
            }
        }
        transcript.append(&run)?;
        Ok(transcript)
    }

    /// Opens the assistant's turn: the generation prompt.
    ///
    /// # Errors
    /// Where a turn is open already, or the tokenizer fails.
    pub fn open_assistant(&mut self) -> Result<(), Error> {
        if self.open_from.is_some() {
            return Err(Error::TurnIsOpen);
        }
        let opening = template(self.family.assistant_opening().to_owned());
        self.append(&[opening])?;
        self.open_from = Some(self.tokens.len());
        Ok(())
    }

    /// Adds sampled tokens, exactly as they are.
    ///
    /// # Errors
    /// Where no turn of the assistant is open.
    pub fn push_policy(&mut self, tokens: &[u32]) -> Result<(), Error> {
        if self.open_from.is_none() {
            return Err(Error::NoOpenTurn);
        }
        self.tokens.extend_from_slice(tokens);
        self.provenance.resize(self.tokens.len(), Provenance::Policy);
        Ok(())
    }

    /// Ends the assistant's turn, if one is open: adds the end token unless the policy wrote it.
    ///
    /// # Errors
    /// Where the tokenizer fails.
    pub fn close_assistant(&mut self) -> Result<(), Error> {
        let Some(from) = self.open_from.take() else { return Ok(()) };
        if self.tokens[from..].last() != Some(&self.end_of_turn) {
            self.push(self.end_of_turn, Provenance::Template);
        }
        // On its own, as between two control tokens, where nothing can be merged with it.
        self.append(&[template("\n".to_owned())])
    }

    /// Adds the answers of tools, all in one turn where the family has it so. Ends the assistant's
    /// turn.
    ///
    /// # Errors
    /// Where there is none, or a message is not a tool's.
    pub fn push_tool_results(&mut self, results: &[Message]) -> Result<(), Error> {
        if results.is_empty() {
            return Err(Error::NoToolResults);
        }
        check_role(results, Role::Tool)?;
        let hidden: Vec<_> =
            results.iter().map(|result| self.shield.hide_message(result)).collect();
        let turn = self.family.tool_turn(&hidden);
        self.close_assistant()?;
        self.append(&turn)
    }

    /// Adds a user's message. Ends the assistant's turn.
    ///
    /// # Errors
    /// Where the message is not a user's.
    pub fn push_user(&mut self, message: &Message) -> Result<(), Error> {
        check_role(std::slice::from_ref(message), Role::User)?;
        let hidden = self.shield.hide_message(message);
        let turn = self.family.given_turn(&hidden);
        self.close_assistant()?;
        self.append(&turn)
    }

    /// All tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// The author of each token.
    pub fn provenance(&self) -> &[Provenance] {
        &self.provenance
    }

    /// For each token whether it is trained on.
    pub fn loss_mask(&self) -> Vec<bool> {
        self.provenance.iter().map(|&author| author == Provenance::Policy).collect()
    }

    /// The policy's tokens of the open turn; empty between turns.
    pub fn open_turn(&self) -> &[u32] {
        self.open_from.map_or(&[], |from| &self.tokens[from..])
    }

    /// The token that ends every turn, to stop sampling at.
    pub fn end_of_turn(&self) -> u32 {
        self.end_of_turn
    }

    fn push(&mut self, token: u32, provenance: Provenance) {
        self.tokens.push(token);
        self.provenance.push(provenance);
    }

    /// Encodes segments as one text, as the model's own tokenizer would, and gives each token to the
    /// author of its first byte.
    fn append(&mut self, segments: &[Segment]) -> Result<(), Error> {
        let mut text = String::new();
        let mut ends = Vec::with_capacity(segments.len());
        for segment in segments {
            text.push_str(&self.tokenizer.spellable(&segment.text));
            ends.push(text.len());
        }
        let author = |byte: usize| {
            let index = ends.partition_point(|&end| end <= byte);
            segments.get(index).or_else(|| segments.last()).map(|segment| segment.provenance)
        };
        let mut added = Vec::new();
        for (start, piece) in self.shield.pieces(&text) {
            let (tokens, is_hidden) = match piece {
                Piece::Open(text) => {
                    (self.tokenizer.encode_with_starts(text, Special::Parse)?, false)
                }
                Piece::Hidden(text) => {
                    let text = self.tokenizer.spellable(text);
                    (self.tokenizer.encode_with_starts(&text, Special::AsText)?, true)
                }
            };
            for (token, at) in tokens {
                let byte = if is_hidden { start } else { start + at };
                added.push((token, author(byte).unwrap_or(Provenance::Template)));
            }
        }
        for (token, provenance) in added {
            self.push(token, provenance);
        }
        Ok(())
    }
}

fn template(text: String) -> Segment {
    Segment { provenance: Provenance::Template, text }
}

fn check_role(messages: &[Message], expected: Role) -> Result<(), Error> {
    match messages.iter().position(|message| message.role != expected) {
        None => Ok(()),
        Some(message) => {
            let found = messages[message].role;
            Err(Error::WrongRole { message, expected, found })
        }
    }
}
